// From a tree to nodes: each scope's names get slots, constants are folded,
// branches that cannot run disappear, neighbouring texts become one.
//
// The rules of scoping are those of jinja2/compiler.py: `Frame` below is its
// Frame. Folding never changes what a template does: what could fail or depends
// on a value's type is left to the runtime.
#include "compiler/Text/TemplateProgram.h"
#include "compiler/Import/InputError.h"
#include "compiler/Text/TemplateParser.h"
#include "compiler/Text/TemplateScope.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>

using namespace llvm;
using namespace ingot;
using namespace ingot::tpl;

using Kind = Node::Kind;

static constexpr uint32_t none = INGOT_RT_TPL_NONE;

namespace {

/// The tables of the section as they grow.
class Tables {
public:
  std::vector<ingot_rt_tpl_node> nodes;
  std::vector<uint32_t> lists;
  std::vector<ingot_rt_tpl_function> functions;
  std::vector<ingot_rt_tpl_template> templates;
  std::vector<uint32_t> specials;

  uint32_t addString(StringRef text) {
    auto [entry, isNew] = stringNumbers.try_emplace(text, uint32_t(strings.size()));
    if (isNew) {
      strings.push_back({bytes.size(), text.size()});
      bytes += text;
    }
    return entry->second;
  }
  StringRef string(uint32_t index) const {
    return StringRef(bytes).substr(strings[index].offset, strings[index].length);
  }
  uint32_t addList(ArrayRef<uint32_t> elements) {
    uint32_t index = lists.size();
    lists.push_back(elements.size());
    lists.insert(lists.end(), elements.begin(), elements.end());
    return index;
  }

  std::string write() {
    std::string section(sizeof(ingot_rt_tpl_header), '\0');
    ingot_rt_tpl_header header = {};
    header.magic = INGOT_RT_TPL_MAGIC;
    header.nodes = append(section, nodes);
    header.lists = append(section, lists);
    header.functions = append(section, functions);
    header.templates = append(section, templates);
    header.specials = append(section, specials);
    section.resize(alignTo(section.size(), 8));
    uint64_t start = section.size() + strings.size() * sizeof(ingot_rt_tpl_string);
    for (ingot_rt_tpl_string &one : strings)
      one.offset += start;
    header.strings = append(section, strings);
    section += bytes;
    header.size = section.size();
    memcpy(section.data(), &header, sizeof header);
    return section;
  }

private:
  template <typename T>
  static ingot_rt_tpl_array append(std::string &section, const std::vector<T> &elements) {
    section.resize(alignTo(section.size(), 8));
    ingot_rt_tpl_array array = {section.size(), elements.size()};
    section.append(reinterpret_cast<const char *>(elements.data()), elements.size() * sizeof(T));
    return array;
  }

  StringMap<uint32_t> stringNumbers;
  std::vector<ingot_rt_tpl_string> strings; ///< offsets into `bytes`
  std::string bytes;
};

/// Where code is emitted.
struct Frame {
  Symbols *symbols;
  bool toplevel = false; ///< what is set here can be looked up by name
  bool soft = false;     ///< in a branch, where an unknown filter is an error only when it is reached
  bool constant = false; ///< in an output that Jinja evaluates when it compiles
};

/// Jinja evaluates this when it compiles: no name, call or filter that needs the context is in it. (It gives up where
/// that fails, which the runtime then does too.)
bool isConstant(const Node &node) {
  if (node.kind == Kind::Name || node.kind == Kind::NamespaceAttribute || node.kind == Kind::Call)
    return false;
  if (node.kind == Kind::Filter &&
      (!node.first || is_contained({"map", "select", "reject", "selectattr", "rejectattr", "random"}, node.text)))
    return false;
  bool constant = true;
  forEachChild(node, [&](const Node &child) { constant &= isConstant(child); });
  return constant;
}

class Emitter {
public:
  Emitter(Tables &tables, StringRef file) : tables(tables), file(file) {}

  Error emit(const Node &root, StringRef name) {
    FunctionScope *function = newFunction(nullptr);
    Symbols *symbols = newSymbols(nullptr, function);
    symbols->analyze(root);
    Frame frame = {symbols, /*toplevel=*/true};
    uint32_t index = reserveFunction();
    uint32_t body = emitBody(root.bodies[0], frame);
    finishFunction(index, *function, none, *symbols, body);
    if (failure)
      return placedError(file, failure->first, failure->second);
    SmallVector<uint32_t> variables;
    for (const std::string &variable : lookedUp)
      variables.push_back(tables.addString(variable));
    tables.templates.push_back({tables.addString(name), index, tables.addList(variables), tables.addString(file)});
    return Error::success();
  }

private:
  void fail(Place place, const Twine &what) {
    if (!failure)
      failure = {place, what.str()};
  }

  FunctionScope *newFunction(FunctionScope *outer) {
    functionScopes.push_back(std::make_unique<FunctionScope>(outer));
    return functionScopes.back().get();
  }
  Symbols *newSymbols(Symbols *parent, FunctionScope *function) {
    symbolTables.push_back(std::make_unique<Symbols>(parent, function));
    return symbolTables.back().get();
  }
  /// Frame.inner
  Frame inner(const Frame &frame) { return {newSymbols(frame.symbols, frame.symbols->function)}; }
  Frame innerFunction(const Frame &frame) { return {newSymbols(frame.symbols, newFunction(frame.symbols->function))}; }
  static Frame soft(Frame frame) {
    frame.soft = true;
    return frame;
  }

  uint32_t add(ingot_rt_tpl_kind kind, Place place, uint32_t a = none, uint32_t b = none, uint32_t c = none,
               uint32_t d = none) {
    tables.nodes.push_back(
        {uint16_t(kind), uint16_t(std::min<uint32_t>(place.column, 0xffff)), place.line, a, b, c, d});
    return tables.nodes.size() - 1;
  }

  uint32_t reserveFunction() {
    tables.functions.push_back({});
    return tables.functions.size() - 1;
  }
  void finishFunction(uint32_t index, const FunctionScope &scope, uint32_t name, const Symbols &symbols, uint32_t body,
                      uint32_t parameters = none, uint32_t caller = none, uint32_t keywords = none,
                      uint32_t positionals = none, bool explicitCaller = false) {
    if (parameters == none)
      parameters = tables.addList({});
    tables.functions[index] = {name,
                               uint32_t(scope.slots.size()),
                               emitLoads(symbols, scope),
                               body,
                               parameters,
                               caller,
                               keywords,
                               positionals,
                               explicitCaller};
  }

  static uint32_t hops(const FunctionScope *from, const FunctionScope *to) {
    uint32_t count = 0;
    for (; from && from != to; from = from->outer)
      ++count;
    return count;
  }

  uint32_t emitLoads(const Symbols &symbols, const FunctionScope &function) {
    static constexpr StringLiteral globals[] = {
#define X(name) #name,
        INGOT_RT_TPL_GLOBALS(X)
#undef X
    };
    SmallVector<uint32_t> list;
    for (const auto &[slot, load] : symbols.loads) {
      uint32_t first = none, second = none;
      if (load.how == INGOT_RT_TPL_LOAD_RESOLVE) {
        first = tables.addString(load.name);
        if (!is_contained(globals, load.name))
          lookedUp.insert(load.name);
      } else if (load.how == INGOT_RT_TPL_LOAD_ALIAS) {
        first = load.from.slot;
        second = hops(&function, load.from.function);
      }
      list.append({uint32_t(load.how), slot, first, second});
    }
    return tables.addList(list);
  }
  uint32_t emitLoads(const Frame &frame) { return emitLoads(*frame.symbols, *frame.symbols->function); }

  Variable find(const Frame &frame, const std::string &name, Place place) {
    std::optional<Variable> variable = frame.symbols->find(name);
    if (!variable) {
      fail(place, "the name '" + name + "' cannot be used here");
      return {frame.symbols->function, 0};
    }
    return *variable;
  }

  // -------------------------------------------------------------- statements

  uint32_t emitBody(const NodeList &body, const Frame &frame) {
    SmallVector<uint32_t> list;
    for (const NodePtr &node : body)
      emitStatement(*node, frame, list);
    return tables.addList(list);
  }

  /// Appends text to what the statements in `list` write.
  void emitText(StringRef text, Place place, SmallVectorImpl<uint32_t> &list) {
    if (text.empty())
      return;
    if (!list.empty() && tables.nodes[list.back()].kind == INGOT_RT_TPL_TEXT) {
      std::string joined = (tables.string(tables.nodes[list.back()].a) + text).str();
      tables.nodes[list.back()].a = tables.addString(joined);
      return;
    }
    list.push_back(add(INGOT_RT_TPL_TEXT, place, tables.addString(text)));
  }

  void emitStatement(const Node &node, const Frame &frame, SmallVectorImpl<uint32_t> &list) {
    switch (node.kind) {
    case Kind::Text:
      return emitText(node.text, node.place, list);
    case Kind::Output: {
      Frame inside = frame;
      inside.constant = isConstant(*node.first);
      uint32_t value = emitValue(*node.first, inside);
      if (std::optional<std::string> text = constantText(value))
        return emitText(*text, node.place, list);
      list.push_back(add(INGOT_RT_TPL_OUTPUT, node.place, value));
      return;
    }
    case Kind::If:
      return emitIf(node, soft(frame), list);
    case Kind::For:
      list.push_back(emitFor(node, frame));
      return;
    case Kind::Set: {
      uint32_t value = emitValue(*node.second, frame);
      list.push_back(add(INGOT_RT_TPL_SET, node.place, emitTarget(*node.first, frame), value));
      return;
    }
    case Kind::SetBlock: {
      Frame block = inner(frame);
      block.symbols->analyze(node);
      uint32_t body = emitBody(node.bodies[0], block);
      uint32_t filter = node.second ? emitValue(*node.second, block) : none;
      list.push_back(
          add(INGOT_RT_TPL_SET_BLOCK, node.place, emitTarget(*node.first, frame), filter, body, emitLoads(block)));
      return;
    }
    case Kind::Macro: {
      uint32_t function = emitFunction(node, frame);
      Variable variable = find(frame, node.text, node.place);
      uint32_t target =
          add(INGOT_RT_TPL_TARGET_NAME, node.place, tables.addString(node.text), variable.slot, frame.toplevel);
      list.push_back(add(INGOT_RT_TPL_MACRO, node.place, target, function));
      return;
    }
    case Kind::CallBlock: {
      uint32_t function = emitFunction(node, frame);
      list.push_back(add(INGOT_RT_TPL_CALL_BLOCK, node.place, function, emitValue(*node.first, frame)));
      return;
    }
    case Kind::Generation:
      list.push_back(add(INGOT_RT_TPL_CALL_BLOCK, node.place, emitFunction(node, frame)));
      return;
    case Kind::FilterBlock: {
      Frame block = inner(frame);
      block.symbols->analyze(node);
      uint32_t body = emitBody(node.bodies[0], block);
      uint32_t filter = emitValue(*node.first, block);
      list.push_back(add(INGOT_RT_TPL_FILTER_BLOCK, node.place, filter, none, body, emitLoads(block)));
      return;
    }
    case Kind::With: {
      Frame block = inner(frame);
      block.symbols->analyze(node);
      SmallVector<uint32_t> pairs;
      for (const auto &[target, value] : zip(node.items, node.defaults)) {
        uint32_t place = emitTarget(*target, block);
        pairs.append({place, emitValue(*value, frame)});
      }
      uint32_t body = emitBody(node.bodies[0], block);
      list.push_back(add(INGOT_RT_TPL_WITH, node.place, tables.addList(pairs), none, body, emitLoads(block)));
      return;
    }
    case Kind::Break:
      list.push_back(add(INGOT_RT_TPL_BREAK, node.place));
      return;
    case Kind::Continue:
      list.push_back(add(INGOT_RT_TPL_CONTINUE, node.place));
      return;
    default:
      return;
    }
  }

  void emitIf(const Node &node, const Frame &frame, SmallVectorImpl<uint32_t> &list) {
    SmallVector<uint32_t> branches;
    for (size_t i = 0; i < node.items.size(); ++i) {
      uint32_t test = emitValue(*node.items[i], frame);
      std::optional<bool> known = constantTruth(test);
      if (known == false) {
        emitBody(node.bodies[i], frame); // for its errors
        continue;
      }
      if (known == true && branches.empty()) {
        for (const NodePtr &statement : node.bodies[i])
          emitStatement(*statement, frame, list);
        return;
      }
      branches.append({test, emitBody(node.bodies[i], frame)});
    }
    bool hasElse = node.bodies.size() > node.items.size();
    if (branches.empty()) {
      if (hasElse)
        for (const NodePtr &statement : node.bodies.back())
          emitStatement(*statement, frame, list);
      return;
    }
    uint32_t otherwise = hasElse ? emitBody(node.bodies.back(), frame) : none;
    list.push_back(add(INGOT_RT_TPL_IF, node.place, tables.addList(branches), otherwise));
  }

  /// A loop sets the special variable itself; nothing below may.
  void checkLoopName(const Node &node) {
    if (node.kind == Kind::Name && node.use == Node::Use::Store && node.text == "loop")
      fail(node.place, "cannot assign to the special variable 'loop' inside of a loop");
    forEachChild(node, [&](const Node &child) { checkLoopName(child); });
  }

  uint32_t emitFor(const Node &node, const Frame &frame) {
    checkLoopName(node);
    Frame loop = inner(frame), otherwise = inner(frame);
    uint32_t elements[INGOT_RT_TPL_FOR_COUNT];
    std::fill(std::begin(elements), std::end(elements), none);
    if (findUndeclared(node.bodies[0], {"loop"}).count("loop"))
      elements[INGOT_RT_TPL_FOR_LOOP_SLOT] = loop.symbols->declareParameter("loop").slot;
    loop.symbols->analyzeLoopBody(node);
    if (node.third) {
      Frame test = innerFunction(frame);
      test.symbols->analyzeLoopTest(node);
      uint32_t function = reserveFunction();
      elements[INGOT_RT_TPL_FOR_TEST] = function;
      elements[INGOT_RT_TPL_FOR_TEST_TARGET] = emitTarget(*node.first, test);
      uint32_t body = tables.addList({emitValue(*node.third, test)});
      finishFunction(function, *test.symbols->function, none, *test.symbols, body);
    }
    elements[INGOT_RT_TPL_FOR_ITERABLE] = emitValue(*node.second, frame);
    elements[INGOT_RT_TPL_FOR_TARGET] = emitTarget(*node.first, loop);
    elements[INGOT_RT_TPL_FOR_BODY] = emitBody(node.bodies[0], loop);
    elements[INGOT_RT_TPL_FOR_LOADS] = emitLoads(loop);
    if (node.bodies.size() > 1) {
      otherwise.symbols->analyzeLoopElse(node);
      elements[INGOT_RT_TPL_FOR_ELSE] = emitBody(node.bodies[1], otherwise);
      elements[INGOT_RT_TPL_FOR_ELSE_LOADS] = emitLoads(otherwise);
    }
    return add(INGOT_RT_TPL_FOR, node.place, tables.addList(elements));
  }

  /// macro_body: a macro, a call block or a generation block.
  uint32_t emitFunction(const Node &node, const Frame &outer) {
    Frame frame = innerFunction(outer);
    frame.symbols->analyze(node);
    bool explicitCaller = false;
    std::set<std::string> special = {"caller", "kwargs", "varargs"}, names;
    std::set<std::string> used = findUndeclared(node.bodies[0], special);
    size_t firstDefault = node.items.size() - node.defaults.size();
    for (auto [i, parameter] : enumerate(node.items)) {
      if (!names.insert(parameter->text).second)
        fail(parameter->place, "the parameter '" + parameter->text + "' is there twice");
      if (parameter->text == "caller") {
        explicitCaller = true;
        if (used.count("caller") && i < firstDefault)
          fail(parameter->place, "the parameter 'caller' must have a default or be left out");
      }
    }
    auto declare = [&](StringRef name) {
      return used.count(name.str()) && !names.count(name.str()) ? frame.symbols->declareParameter(name.str()).slot
                                                                : none;
    };
    uint32_t caller = declare("caller"), keywords = declare("kwargs"), positionals = declare("varargs");
    uint32_t index = reserveFunction();
    SmallVector<uint32_t> parameters;
    for (auto [i, parameter] : enumerate(node.items)) {
      uint32_t value = i < firstDefault ? none : emitValue(*node.defaults[i - firstDefault], frame);
      parameters.append(
          {tables.addString(parameter->text), find(frame, parameter->text, parameter->place).slot, value});
    }
    uint32_t body = emitBody(node.bodies[0], frame);
    finishFunction(index, *frame.symbols->function, node.kind == Kind::Macro ? tables.addString(node.text) : none,
                   *frame.symbols, body, tables.addList(parameters), caller, keywords, positionals, explicitCaller);
    return index;
  }

  uint32_t emitTarget(const Node &node, const Frame &frame) {
    if (node.kind == Kind::Tuple) {
      SmallVector<uint32_t> items;
      for (const NodePtr &item : node.items)
        items.push_back(emitTarget(*item, frame));
      return add(INGOT_RT_TPL_TARGET_TUPLE, node.place, tables.addList(items));
    }
    Variable variable = find(frame, node.text, node.place);
    if (node.kind == Kind::NamespaceAttribute)
      return add(INGOT_RT_TPL_TARGET_NAMESPACE, node.place, tables.addString(node.text), variable.slot,
                 hops(frame.symbols->function, variable.function), tables.addString(node.attribute));
    return add(INGOT_RT_TPL_TARGET_NAME, node.place, tables.addString(node.text), variable.slot, frame.toplevel);
  }

  // ------------------------------------------------------------- expressions

  ingot_rt_tpl_kind kindOf(uint32_t node) const { return ingot_rt_tpl_kind(tables.nodes[node].kind); }

  std::optional<bool> constantTruth(uint32_t node) const {
    const ingot_rt_tpl_node &value = tables.nodes[node];
    switch (value.kind) {
    case INGOT_RT_TPL_CONST_NONE:
      return false;
    case INGOT_RT_TPL_CONST_BOOL:
      return value.a != 0;
    case INGOT_RT_TPL_CONST_INT:
      return (value.a | value.b) != 0;
    case INGOT_RT_TPL_CONST_STRING:
      return !tables.string(value.a).empty();
    default:
      return std::nullopt;
    }
  }

  int64_t integerOf(uint32_t node) const {
    return int64_t(uint64_t(tables.nodes[node].b) << 32 | tables.nodes[node].a);
  }
  uint32_t addInteger(Place place, int64_t value) {
    return add(INGOT_RT_TPL_CONST_INT, place, uint32_t(value), uint32_t(uint64_t(value) >> 32));
  }
  uint32_t addText(Place place, const Twine &text) {
    SmallString<64> buffer;
    return add(INGOT_RT_TPL_CONST_STRING, place, tables.addString(text.toStringRef(buffer)));
  }

  /// What a constant prints as. Floats are left to the runtime.
  std::optional<std::string> constantText(uint32_t node) const {
    const ingot_rt_tpl_node &value = tables.nodes[node];
    switch (value.kind) {
    case INGOT_RT_TPL_CONST_NONE:
      return "None";
    case INGOT_RT_TPL_CONST_BOOL:
      return value.a ? "True" : "False";
    case INGOT_RT_TPL_CONST_INT:
      return std::to_string(integerOf(node));
    case INGOT_RT_TPL_CONST_STRING:
      return tables.string(value.a).str();
    default:
      return std::nullopt;
    }
  }

  uint32_t emitItems(const NodeList &items, const Frame &frame) {
    SmallVector<uint32_t> list;
    for (const NodePtr &item : items)
      list.push_back(emitValue(*item, frame));
    return tables.addList(list);
  }

  uint32_t emitArguments(const CallArguments &arguments, const Frame &frame) {
    SmallVector<uint32_t> list;
    list.push_back(arguments.positional.size());
    for (const NodePtr &value : arguments.positional)
      list.push_back(emitValue(*value, frame));
    list.push_back(arguments.keywords.size());
    for (const auto &[name, value] : arguments.keywords) {
      uint32_t text = tables.addString(name);
      list.append({text, emitValue(*value, frame)});
    }
    for (const NodePtr *value : {&arguments.dynamic, &arguments.dynamicKeywords})
      list.push_back(*value ? emitValue(**value, frame) : none);
    return tables.addList(list);
  }

  uint32_t emitValue(const Node &node, const Frame &frame) {
    Place place = node.place;
    switch (node.kind) {
    case Kind::None:
      return add(INGOT_RT_TPL_CONST_NONE, place);
    case Kind::Bool:
      return add(INGOT_RT_TPL_CONST_BOOL, place, node.integer != 0);
    case Kind::Integer:
      return addInteger(place, node.integer);
    case Kind::Float: {
      uint64_t bits = bit_cast<uint64_t>(node.real);
      return add(INGOT_RT_TPL_CONST_FLOAT, place, uint32_t(bits), uint32_t(bits >> 32));
    }
    case Kind::String:
      return addText(place, node.text);
    case Kind::Name:
      return emitName(node, frame);
    case Kind::Tuple:
      return add(INGOT_RT_TPL_TUPLE, place, emitItems(node.items, frame));
    case Kind::List:
      return add(INGOT_RT_TPL_LIST, place, emitItems(node.items, frame));
    case Kind::Dict:
      return add(INGOT_RT_TPL_DICT, place, emitItems(node.items, frame));
    case Kind::Conditional:
      return emitConditional(node, soft(frame));
    case Kind::And:
    case Kind::Or: {
      uint32_t left = emitValue(*node.first, frame), right = emitValue(*node.second, frame);
      if (std::optional<bool> known = constantTruth(left))
        return *known == (node.kind == Kind::And) ? right : left;
      return add(node.kind == Kind::And ? INGOT_RT_TPL_AND : INGOT_RT_TPL_OR, place, left, right);
    }
    case Kind::Not: {
      uint32_t value = emitValue(*node.first, frame);
      if (std::optional<bool> known = constantTruth(value))
        return add(INGOT_RT_TPL_CONST_BOOL, place, !*known);
      return add(INGOT_RT_TPL_NOT, place, value);
    }
    case Kind::Negate: {
      uint32_t value = emitValue(*node.first, frame);
      if (kindOf(value) == INGOT_RT_TPL_CONST_INT && integerOf(value) != INT64_MIN)
        return addInteger(place, -integerOf(value));
      return add(INGOT_RT_TPL_NEGATE, place, value);
    }
    case Kind::Positive:
      return add(INGOT_RT_TPL_POSITIVE, place, emitValue(*node.first, frame));
    case Kind::Binary:
      return emitBinary(node, frame);
    case Kind::Concat:
      return emitConcat(node, frame);
    case Kind::Compare: {
      uint32_t first = emitValue(*node.first, frame);
      SmallVector<uint32_t> list;
      for (const auto &[operation, item] : zip(node.operations, node.items))
        list.append({operation, emitValue(*item, frame)});
      return add(INGOT_RT_TPL_COMPARE, place, first, tables.addList(list));
    }
    case Kind::GetAttribute: {
      uint32_t object = emitValue(*node.first, frame);
      return add(INGOT_RT_TPL_GETATTR, place, object, tables.addString(node.text));
    }
    case Kind::GetItem:
      return emitSubscript(node, frame);
    case Kind::Call: {
      uint32_t callee = emitValue(*node.first, frame);
      return add(INGOT_RT_TPL_CALL, place, callee, emitArguments(node.arguments, frame));
    }
    case Kind::Filter:
    case Kind::Test:
      return emitFilterOrTest(node, frame);
    default:
      fail(place, "this cannot stand in an expression");
      return add(INGOT_RT_TPL_CONST_NONE, place);
    }
  }

  uint32_t emitName(const Node &node, const Frame &frame) {
    Variable variable = find(frame, node.text, node.place);
    for (const Symbols *at = frame.symbols; at; at = at->parent) {
      auto load = at->loads.find(variable.slot);
      if (at->function != variable.function || load == at->loads.end())
        continue;
      if (load->second.how == INGOT_RT_TPL_LOAD_RESOLVE && is_contained({"lipsum", "cycler", "joiner"}, node.text))
        fail(node.place, "the function '" + node.text + "' is not supported");
      break;
    }
    return add(INGOT_RT_TPL_NAME, node.place, tables.addString(node.text), variable.slot,
               hops(frame.symbols->function, variable.function));
  }

  uint32_t emitConditional(const Node &node, const Frame &frame) {
    uint32_t test = emitValue(*node.second, frame), yes = emitValue(*node.first, frame);
    uint32_t no = node.third ? emitValue(*node.third, frame) : none;
    std::optional<bool> known = constantTruth(test);
    if (known == true)
      return yes;
    if (known == false && no != none)
      return no;
    return add(INGOT_RT_TPL_CONDITIONAL, node.place, test, yes, no);
  }

  uint32_t emitBinary(const Node &node, const Frame &frame) {
    uint32_t left = emitValue(*node.first, frame), right = emitValue(*node.second, frame);
    // Jinja writes a constant on the left into Python's source, where the power binds closer than the sign: -1 ** n is
    // -(1 ** n) there.
    if (node.operation == INGOT_RT_TPL_POW && isConstant(*node.first) && !isConstant(*node.second))
      return add(INGOT_RT_TPL_BINARY, node.place, left, right, INGOT_RT_TPL_POW_LITERAL);
    if (kindOf(left) == INGOT_RT_TPL_CONST_INT && kindOf(right) == INGOT_RT_TPL_CONST_INT) {
      int64_t a = integerOf(left), b = integerOf(right), result;
      if (node.operation == INGOT_RT_TPL_ADD && !AddOverflow(a, b, result))
        return addInteger(node.place, result);
      if (node.operation == INGOT_RT_TPL_SUB && !SubOverflow(a, b, result))
        return addInteger(node.place, result);
      if (node.operation == INGOT_RT_TPL_MUL && !MulOverflow(a, b, result))
        return addInteger(node.place, result);
    }
    if (node.operation == INGOT_RT_TPL_ADD && kindOf(right) == INGOT_RT_TPL_CONST_STRING) {
      StringRef text = tables.string(tables.nodes[right].a);
      if (kindOf(left) == INGOT_RT_TPL_CONST_STRING)
        return addText(node.place, tables.string(tables.nodes[left].a) + text);
      // (x + 'a') + 'b' is x + 'ab' for every x that can be added to a string.
      if (kindOf(left) == INGOT_RT_TPL_BINARY && tables.nodes[left].c == INGOT_RT_TPL_ADD &&
          kindOf(tables.nodes[left].b) == INGOT_RT_TPL_CONST_STRING) {
        uint32_t joined = addText(node.place, tables.string(tables.nodes[tables.nodes[left].b].a) + text);
        return add(INGOT_RT_TPL_BINARY, node.place, tables.nodes[left].a, joined, INGOT_RT_TPL_ADD);
      }
    }
    return add(INGOT_RT_TPL_BINARY, node.place, left, right, node.operation);
  }

  uint32_t emitConcat(const Node &node, const Frame &frame) {
    SmallVector<uint32_t> list;
    for (const NodePtr &item : node.items) {
      uint32_t value = emitValue(*item, frame);
      std::optional<std::string> text = constantText(value);
      std::optional<std::string> before;
      if (text && !list.empty())
        before = constantText(list.back());
      if (before)
        list.back() = addText(item->place, *before + *text);
      else
        list.push_back(value);
    }
    if (list.size() == 1 && kindOf(list[0]) == INGOT_RT_TPL_CONST_STRING)
      return list[0];
    return add(INGOT_RT_TPL_CONCAT, node.place, tables.addList(list));
  }

  uint32_t emitSubscript(const Node &node, const Frame &frame) {
    uint32_t object = emitValue(*node.first, frame);
    const Node &index = *node.second;
    if (index.kind != Kind::Slice)
      return add(INGOT_RT_TPL_GETITEM, node.place, object, emitValue(index, frame));
    SmallVector<uint32_t> parts;
    for (const NodePtr *part : {&index.first, &index.second, &index.third})
      parts.push_back(*part ? emitValue(**part, frame) : none);
    // Where Jinja slices a constant itself, it takes a TypeError for a missing item.
    return add(INGOT_RT_TPL_SLICE, node.place, object, tables.addList(parts), frame.constant);
  }

  uint32_t emitFilterOrTest(const Node &node, const Frame &frame) {
    static const StringMap<uint32_t> filters = {
#define X(name) {#name, INGOT_RT_TPL_FILTER_##name},
        INGOT_RT_TPL_FILTERS(X)
#undef X
#define X(text, name) {text, INGOT_RT_TPL_FILTER_##name},
            INGOT_RT_TPL_FILTER_ALIASES(X)
#undef X
    };
    static const StringMap<uint32_t> tests = {
#define X(name) {#name, INGOT_RT_TPL_TEST_##name},
        INGOT_RT_TPL_TESTS(X)
#undef X
#define X(text, name) {text, INGOT_RT_TPL_TEST_##name},
            INGOT_RT_TPL_TEST_ALIASES(X)
#undef X
    };
    static constexpr StringLiteral refused[] = {
#define X(name) name,
        INGOT_RT_TPL_REFUSED_FILTERS(X)
#undef X
    };
    bool isFilter = node.kind == Kind::Filter;
    const StringMap<uint32_t> &known = isFilter ? filters : tests;
    StringRef what = isFilter ? "filter" : "test";
    uint32_t value = node.first ? emitValue(*node.first, frame) : none;
    uint32_t arguments = emitArguments(node.arguments, frame);
    auto found = known.find(node.text);
    if (found != known.end())
      return add(isFilter ? INGOT_RT_TPL_FILTER : INGOT_RT_TPL_TEST, node.place, value, arguments, found->second);
    if (isFilter && is_contained(refused, node.text))
      fail(node.place, "the filter '" + node.text + "' is not supported");
    else if (!frame.soft)
      fail(node.place, "there is no " + what + " named " + quote(node.text));
    return add(INGOT_RT_TPL_FAIL, node.place,
               tables.addString(("No " + what + " named '" + node.text + "' found.").str()));
  }

  Tables &tables;
  std::string file;
  std::vector<std::unique_ptr<FunctionScope>> functionScopes;
  std::vector<std::unique_ptr<Symbols>> symbolTables;
  std::set<std::string> lookedUp;
  std::optional<std::pair<Place, std::string>> failure;
};

} // namespace

Expected<std::string> ingot::makeTemplateSection(const ChatFormat &format) {
  Tables tables;
  for (const TemplateText &text : format.templates) {
    Expected<NodePtr> root = parseTemplate(text.text, text.where);
    if (!root)
      return root.takeError();
    if (Error error = Emitter(tables, text.where).emit(**root, text.name))
      return std::move(error);
  }
  for (const auto &[name, text] : format.specials) {
    uint32_t first = tables.addString(name);
    tables.specials.insert(tables.specials.end(), {first, tables.addString(text)});
  }
  return tables.write();
}
