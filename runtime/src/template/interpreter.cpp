// Expressions and statements.
#include "template/interpreter.h"

#include "template/format.h"
#include "template/operations.h"

#include <cstring>

namespace ingot::rt::tpl {

/// Counts evaluations inside of each other.
struct Nested {
  explicit Nested(Interpreter &interpreter) : interpreter(interpreter) {
    if (++interpreter.nesting > maxNesting)
      interpreter.fail("the template is nested too deeply, or a macro calls itself without end");
  }
  ~Nested() { --interpreter.nesting; }
  Interpreter &interpreter;
};

Interpreter::Interpreter(const Program &program, Value input, Clock clock)
    : program(program), input(std::move(input)), clock(clock) {}

/// Namespaces and frames are all that values can reach themselves through.
Interpreter::~Interpreter() {
  for (const auto &one : namespaces)
    one->attributes.entries.clear();
  for (const auto &one : frames)
    one->slots.clear();
}

Text Interpreter::render(const ingot_rt_tpl_template &which) {
  const ingot_rt_tpl_function &function = program.function(which.function);
  TextBuilder result;
  frames.push_back(std::make_unique<FunctionFrame>());
  frame = frames.back().get();
  frame->slots.resize(function.slots);
  out = &result;
  enter(function.loads, *frame);
  execute(function.body);
  return result.take();
}

// ---------------------------------------------------------------------------
// Variables
// ---------------------------------------------------------------------------

Value Interpreter::resolve(std::string_view name) {
  if (auto found = exported.find(name); found != exported.end())
    return found->second;
  if (const Value *given = input.as<DictObject>().find(name))
    return *given;
  std::span<const uint32_t> specials = program.specials();
  for (size_t i = 0; i < specials.size(); i += 2)
    if (program.string(specials[i]) == name)
      return Value::string(program.string(specials[i + 1]));
  static constexpr std::string_view globals[] = {
#define X(name) #name,
      INGOT_RT_TPL_GLOBALS(X)
#undef X
  };
  for (uint32_t i = 0; i < std::size(globals); ++i)
    if (globals[i] == name) {
      auto object = std::make_shared<FunctionObject>();
      object->which = i;
      return Value::object(Type::Function, std::move(object));
    }
  return {};
}

Value &Interpreter::slot(FunctionFrame &where, uint32_t index) {
  static Value nowhere;
  if (index >= where.slots.size()) {
    fail("damaged: a variable outside of its function");
    return nowhere;
  }
  return where.slots[index];
}

FunctionFrame *Interpreter::outward(FunctionFrame *from, uint32_t hops) {
  for (; hops != 0 && from->outer; --hops)
    from = from->outer;
  return from;
}

void Interpreter::enter(uint32_t loads, FunctionFrame &where) {
  std::span<const uint32_t> items = program.list(loads);
  for (size_t i = 0; i < items.size(); i += 4) {
    Value &variable = slot(where, items[i + 1]);
    switch (items[i]) {
    case INGOT_RT_TPL_LOAD_MISSING:
      variable = {};
      break;
    case INGOT_RT_TPL_LOAD_RESOLVE:
      variable = resolve(program.string(items[i + 2]));
      break;
    case INGOT_RT_TPL_LOAD_ALIAS:
      variable = slot(*outward(&where, items[i + 3]), items[i + 2]);
      break;
    default:
      break;
    }
  }
}

void Interpreter::leave(uint32_t loads, FunctionFrame &where) {
  std::span<const uint32_t> items = program.list(loads);
  for (size_t i = 0; i < items.size(); i += 4)
    slot(where, items[i + 1]) = {};
}

Value Interpreter::assign(uint32_t target, const Value &value, FunctionFrame &where) {
  const ingot_rt_tpl_node &node = program.node(target);
  if (node.kind == INGOT_RT_TPL_TARGET_NAME) {
    slot(where, node.b) = value;
    if (node.c == 1)
      exported.insert_or_assign(std::string(program.string(node.a)), value);
    return {};
  }
  if (node.kind == INGOT_RT_TPL_TARGET_NAMESPACE) {
    const Value &object = slot(*outward(&where, node.c), node.b);
    if (!object.is(Type::Namespace))
      return fail("cannot assign attribute on non-namespace object");
    std::string_view name = program.string(node.d);
    if (name.starts_with("_"))
      return fail("a namespace cannot hold '%s': names that start with an underscore are not allowed",
                  std::string(name).c_str());
    object.as<NamespaceObject>().attributes.set(Value::string(name), value);
    return {};
  }
  if (node.kind != INGOT_RT_TPL_TARGET_TUPLE)
    return fail("damaged: a target that is none");
  Nested nested(*this);
  std::span<const uint32_t> targets = program.list(node.a);
  std::shared_ptr<Iterator> iterator = failed ? nullptr : iterate(value);
  if (!iterator)
    return {};
  Values items;
  for (Value one; items.size() <= targets.size() && iterator->next(*this, one);)
    items.push_back(one);
  if (failed)
    return {};
  if (items.size() > targets.size())
    return fail("too many values to unpack (expected %zu)", targets.size());
  if (items.size() < targets.size())
    return fail("not enough values to unpack (expected %zu, got %zu)", targets.size(), items.size());
  for (size_t i = 0; i < targets.size() && !failed; ++i)
    assign(targets[i], items[i], where);
  return {};
}

// ---------------------------------------------------------------------------
// Expressions
// ---------------------------------------------------------------------------

Value Interpreter::evaluateIn(FunctionFrame &where, uint32_t node) {
  FunctionFrame *before = frame;
  frame = &where;
  Value result = evaluate(node);
  frame = before;
  return result;
}

Value Interpreter::evaluate(uint32_t index) {
  Nested nested(*this);
  if (!step())
    return {};
  const ingot_rt_tpl_node &node = program.node(index);
  Value result = evaluateNode(node);
  if (failed && failedLine == 0) {
    failedLine = node.line;
    failedColumn = node.column;
  }
  return result;
}

Value Interpreter::evaluateNode(const ingot_rt_tpl_node &node) {
  switch (node.kind) {
  case INGOT_RT_TPL_NAME:
    return evaluateName(node);
  case INGOT_RT_TPL_TUPLE:
    return evaluateItems(node.a, Type::Tuple);
  case INGOT_RT_TPL_LIST:
    return evaluateItems(node.a, Type::List);
  case INGOT_RT_TPL_DICT:
    return evaluateDict(node.a);
  case INGOT_RT_TPL_CONDITIONAL:
    return evaluateConditional(node);
  case INGOT_RT_TPL_AND: {
    Value left = evaluate(node.a);
    return failed || !isTrue(left) ? left : evaluate(node.b);
  }
  case INGOT_RT_TPL_OR: {
    Value left = evaluate(node.a);
    return failed || isTrue(left) ? left : evaluate(node.b);
  }
  case INGOT_RT_TPL_NOT: {
    Value value = evaluate(node.a);
    return failed ? Value() : Value::boolean(!isTrue(value));
  }
  case INGOT_RT_TPL_NEGATE: {
    Value value = evaluate(node.a);
    return failed ? Value() : negate(*this, value);
  }
  case INGOT_RT_TPL_POSITIVE: {
    Value value = evaluate(node.a);
    if (failed || value.is(Type::Float))
      return value;
    if (value.isInteger())
      return Value::integer(value.integer(), value.isTrusted());
    if (value.isUndefined())
      return failUndefined(value);
    return fail("bad operand type for unary +: '%s'", std::string(typeName(value)).c_str());
  }
  case INGOT_RT_TPL_BINARY: {
    Value left = evaluate(node.a);
    Value right = failed ? Value() : evaluate(node.b);
    return failed ? Value() : binary(*this, node.c, left, right);
  }
  case INGOT_RT_TPL_CONCAT:
    return evaluateConcat(node);
  case INGOT_RT_TPL_COMPARE:
    return evaluateCompare(node);
  case INGOT_RT_TPL_GETATTR: {
    Value object = evaluate(node.a);
    return failed ? Value() : attribute(object, program.string(node.b));
  }
  case INGOT_RT_TPL_GETITEM: {
    Value object = evaluate(node.a);
    Value key = failed ? Value() : evaluate(node.b);
    return failed ? Value() : item(object, key);
  }
  case INGOT_RT_TPL_SLICE:
    return evaluateSlice(node);
  case INGOT_RT_TPL_CALL:
    return evaluateCall(node, nullptr);
  case INGOT_RT_TPL_FILTER:
    return evaluateFilter(node, nullptr);
  case INGOT_RT_TPL_TEST: {
    Value value = evaluate(node.a);
    Arguments arguments;
    if (failed || !evaluateArguments(node.b, arguments))
      return {};
    bool result = test(node.c, value, arguments);
    return failed ? Value() : Value::boolean(result);
  }
  case INGOT_RT_TPL_FAIL:
    return failTyped(std::string(program.string(node.a)));
  default:
    return evaluateConstant(node);
  }
}

Value Interpreter::evaluateConstant(const ingot_rt_tpl_node &node) {
  uint64_t bits = static_cast<uint64_t>(node.b) << 32 | node.a;
  switch (node.kind) {
  case INGOT_RT_TPL_CONST_NONE:
    return Value::none();
  case INGOT_RT_TPL_CONST_BOOL:
    return Value::boolean(node.a != 0);
  case INGOT_RT_TPL_CONST_INT:
    return Value::integer(static_cast<int64_t>(bits));
  case INGOT_RT_TPL_CONST_FLOAT: {
    double value;
    memcpy(&value, &bits, sizeof value);
    return Value::real(value);
  }
  case INGOT_RT_TPL_CONST_STRING:
    if (node.a >= constants.size())
      constants.resize(node.a + 1);
    if (constants[node.a].isMissing())
      constants[node.a] = Value::string(program.string(node.a));
    return constants[node.a];
  default:
    return fail("damaged: a statement in the place of an expression");
  }
}

Value Interpreter::evaluateName(const ingot_rt_tpl_node &node) {
  const Value &value = slot(*outward(frame, node.c), node.b);
  if (!value.isMissing())
    return value;
  return makeUndefined("'" + std::string(program.string(node.a)) + "' is undefined");
}

Value Interpreter::evaluateItems(uint32_t list, Type type) {
  Values items;
  for (uint32_t node : program.list(list)) {
    items.push_back(evaluate(node));
    if (failed)
      return {};
  }
  return contained(makeList(std::move(items), type));
}

Value Interpreter::evaluateDict(uint32_t list) {
  std::span<const uint32_t> nodes = program.list(list);
  auto dict = std::make_shared<DictObject>();
  for (size_t i = 0; i < nodes.size(); i += 2) {
    Value key = evaluate(nodes[i]);
    Value value = failed ? Value() : evaluate(nodes[i + 1]);
    if (failed || !hashable(key))
      return {};
    dict->set(key, std::move(value));
  }
  return contained(Value::object(Type::Dict, std::move(dict)));
}

Value Interpreter::evaluateConditional(const ingot_rt_tpl_node &node) {
  Value test = evaluate(node.a);
  if (failed)
    return {};
  if (isTrue(test))
    return evaluate(node.b);
  if (node.c != none)
    return evaluate(node.c);
  return makeUndefined("the inline if-expression on line " + std::to_string(node.line) +
                       " evaluated to false and no else section was defined.");
}

Value Interpreter::evaluateConcat(const ingot_rt_tpl_node &node) {
  TextBuilder builder;
  for (uint32_t item : program.list(node.a)) {
    Value value = evaluate(item);
    if (failed)
      return {};
    appendStr(*this, value, builder);
  }
  return failed ? Value() : text(builder);
}

Value Interpreter::evaluateCompare(const ingot_rt_tpl_node &node) {
  Value left = evaluate(node.a);
  std::span<const uint32_t> items = program.list(node.b);
  for (size_t i = 0; i < items.size() && !failed; i += 2) {
    Value right = evaluate(items[i + 1]);
    if (failed)
      return {};
    bool result = items[i] == INGOT_RT_TPL_IN       ? contains(right, left)
                  : items[i] == INGOT_RT_TPL_NOT_IN ? !contains(right, left)
                                                    : compare(*this, items[i], left, right);
    if (failed || !result)
      return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluateSlice(const ingot_rt_tpl_node &node) {
  Value object = evaluate(node.a), parts[3];
  std::span<const uint32_t> nodes = program.list(node.b);
  for (size_t i = 0; i < 3 && !failed; ++i)
    parts[i] = nodes[i] == none ? Value::none() : evaluate(nodes[i]);
  if (failed)
    return {};
  bool sliceable = object.isString() || object.is(Type::List) || object.is(Type::Tuple);
  for (const Value &part : parts)
    sliceable &= part.isNone() || part.isInteger();
  if (node.c == 1 && !sliceable)
    return makeUndefined("'" + std::string(typeName(object)) + " object' has no element of these indices");
  return slice(object, parts[0], parts[1], parts[2]);
}

bool Interpreter::evaluateArguments(uint32_t list, Arguments &arguments) {
  std::span<const uint32_t> items = program.list(list);
  size_t at = 0;
  for (uint32_t count = items[at++]; count > 0 && !failed; --count)
    arguments.positional.push_back(evaluate(items[at++]));
  if (failed)
    return false;
  for (uint32_t count = items[at++]; count > 0 && !failed; --count, at += 2)
    arguments.keywords.emplace_back(program.string(items[at]), evaluate(items[at + 1]));
  if (failed)
    return false;
  if (items[at] != none) {
    Value more = evaluate(items[at]);
    if (failed || !collect(more, arguments.positional))
      return false;
  }
  if (items[at + 1] == none)
    return true;
  Value more = evaluate(items[at + 1]);
  if (failed)
    return false;
  if (!more.is(Type::Dict)) {
    fail("the argument after ** must be a mapping, not %s", std::string(typeName(more)).c_str());
    return false;
  }
  for (const auto &[key, value] : more.as<DictObject>().entries) {
    if (!key.isString()) {
      fail("keywords must be strings");
      return false;
    }
    std::string name(key.text().bytes());
    for (const auto &other : arguments.keywords)
      if (other.first == name) {
        fail("got multiple values for keyword argument '%s'", name.c_str());
        return false;
      }
    arguments.keywords.emplace_back(std::move(name), value);
  }
  return step(arguments.keywords.size());
}

Value Interpreter::evaluateCall(const ingot_rt_tpl_node &node, const Value *caller) {
  Value callee = evaluate(node.a);
  Arguments arguments;
  if (failed || !evaluateArguments(node.b, arguments))
    return {};
  if (caller)
    arguments.keywords.emplace_back("caller", *caller);
  return call(callee, arguments);
}

Value Interpreter::evaluateFilter(const ingot_rt_tpl_node &node, const Text *block) {
  Value value;
  if (node.a == none) {
    // A chain of filters over a block starts with its text.
    if (!block)
      return fail("damaged: a filter without a value");
    value = Value::string(*block);
  } else if (block && program.node(node.a).kind == INGOT_RT_TPL_FILTER) {
    Nested nested(*this);
    value = failed ? Value() : evaluateFilter(program.node(node.a), block);
  } else {
    value = evaluate(node.a);
  }
  Arguments arguments;
  if (failed || !evaluateArguments(node.b, arguments))
    return {};
  return filter(node.c, value, arguments);
}

// ---------------------------------------------------------------------------
// Statements
// ---------------------------------------------------------------------------

Interpreter::Flow Interpreter::execute(uint32_t body) {
  Nested nested(*this);
  for (uint32_t index : program.list(body)) {
    if (!step())
      return Flow::Next;
    const ingot_rt_tpl_node &node = program.node(index);
    Flow flow = executeNode(node);
    if (failed && failedLine == 0) {
      failedLine = node.line;
      failedColumn = node.column;
    }
    if (failed || flow != Flow::Next)
      return flow;
  }
  return Flow::Next;
}

void Interpreter::output(const Value &value) {
  if (failed)
    return;
  size_t before = out->size();
  appendStr(*this, value, *out);
  spend(out->size() - before);
  if (out->size() > maxOneText)
    spend(maxOneText + 1);
}

Interpreter::Flow Interpreter::executeNode(const ingot_rt_tpl_node &node) {
  switch (node.kind) {
  case INGOT_RT_TPL_TEXT:
    if (spend(program.string(node.a).size()))
      out->append(program.string(node.a), true);
    return Flow::Next;
  case INGOT_RT_TPL_OUTPUT:
    output(evaluate(node.a));
    return Flow::Next;
  case INGOT_RT_TPL_IF:
    return executeIf(node);
  case INGOT_RT_TPL_FOR:
    return executeFor(node);
  case INGOT_RT_TPL_SET: {
    Value value = evaluate(node.b);
    if (!failed)
      assign(node.a, value, *frame);
    return Flow::Next;
  }
  case INGOT_RT_TPL_SET_BLOCK:
    return executeSetBlock(node);
  case INGOT_RT_TPL_MACRO:
    assign(node.a, makeMacro(node.b), *frame);
    return Flow::Next;
  case INGOT_RT_TPL_CALL_BLOCK:
    executeCallBlock(node);
    return Flow::Next;
  case INGOT_RT_TPL_FILTER_BLOCK:
    return executeFilterBlock(node);
  case INGOT_RT_TPL_WITH:
    return executeWith(node);
  case INGOT_RT_TPL_BREAK:
    return Flow::Break;
  case INGOT_RT_TPL_CONTINUE:
    return Flow::Continue;
  default:
    fail("damaged: an expression in the place of a statement");
    return Flow::Next;
  }
}

Interpreter::Flow Interpreter::executeIf(const ingot_rt_tpl_node &node) {
  std::span<const uint32_t> branches = program.list(node.a);
  for (size_t i = 0; i < branches.size(); i += 2) {
    Value test = evaluate(branches[i]);
    if (failed)
      return Flow::Next;
    if (isTrue(test))
      return execute(branches[i + 1]);
  }
  return node.b == none ? Flow::Next : execute(node.b);
}

namespace {

/// The items of a loop that its test lets through. The test is a function with
/// slots of its own, run as the loop goes on.
struct TestedIterator : Iterator {
  std::shared_ptr<Iterator> source;
  FunctionFrame frame;
  uint32_t target = 0, test = 0;

  bool next(Interpreter &interpreter, Value &value) override {
    while (interpreter.step() && source->next(interpreter, value)) {
      interpreter.assign(target, value, frame);
      if (interpreter.failed)
        return false;
      Value passed = interpreter.evaluateIn(frame, test);
      if (interpreter.failed)
        return false;
      if (isTrue(passed))
        return true;
    }
    return false;
  }
};

} // namespace

Interpreter::Flow Interpreter::executeFor(const ingot_rt_tpl_node &node) {
  std::span<const uint32_t> parts = program.list(node.a);
  Value iterable = evaluate(parts[INGOT_RT_TPL_FOR_ITERABLE]);
  auto loop = std::make_shared<LoopObject>();
  loop->iterator = failed ? nullptr : iterate(iterable);
  if (!loop->iterator)
    return Flow::Next;
  loop->knownLength = lengthOf(iterable);
  if (iterable.isUndefined())
    loop->knownLength = 0;
  if (uint32_t test = parts[INGOT_RT_TPL_FOR_TEST]; test != none) {
    auto tested = std::make_shared<TestedIterator>();
    const ingot_rt_tpl_function &function = program.function(test);
    tested->source = loop->iterator;
    tested->frame.slots.resize(function.slots);
    tested->frame.outer = frame;
    frame->captured = true;
    tested->target = parts[INGOT_RT_TPL_FOR_TEST_TARGET];
    tested->test = program.list(function.body)[0];
    enter(function.loads, tested->frame);
    loop->iterator = std::move(tested);
    loop->knownLength = -1;
  }
  bool ran = false;
  uint32_t loopSlot = parts[INGOT_RT_TPL_FOR_LOOP_SLOT];
  while (step() && advanceLoop(*this, *loop)) {
    assign(parts[INGOT_RT_TPL_FOR_TARGET], loop->current, *frame);
    if (loopSlot != none)
      slot(*frame, loopSlot) = Value::object(Type::Loop, loop);
    enter(parts[INGOT_RT_TPL_FOR_LOADS], *frame);
    Flow flow = failed ? Flow::Break : execute(parts[INGOT_RT_TPL_FOR_BODY]);
    if (failed || flow == Flow::Break)
      break;
    // Jinja notes it at the end of the body, which continue and break skip.
    ran |= flow == Flow::Next;
  }
  // Nothing that the loop holds may hold the loop.
  loop->iterator = nullptr;
  loop->ended = true;
  loop->lastChanged = {};
  leave(parts[INGOT_RT_TPL_FOR_LOADS], *frame);
  if (failed || ran || parts[INGOT_RT_TPL_FOR_ELSE] == none)
    return Flow::Next;
  enter(parts[INGOT_RT_TPL_FOR_ELSE_LOADS], *frame);
  Flow flow = execute(parts[INGOT_RT_TPL_FOR_ELSE]);
  leave(parts[INGOT_RT_TPL_FOR_ELSE_LOADS], *frame);
  return flow;
}

Interpreter::Flow Interpreter::executeWith(const ingot_rt_tpl_node &node) {
  enter(node.d, *frame);
  std::span<const uint32_t> pairs = program.list(node.a);
  for (size_t i = 0; i < pairs.size() && !failed; i += 2) {
    Value value = evaluate(pairs[i + 1]);
    if (!failed)
      assign(pairs[i], value, *frame);
  }
  Flow flow = failed ? Flow::Next : execute(node.c);
  leave(node.d, *frame);
  return flow;
}

Interpreter::Flow Interpreter::executeSetBlock(const ingot_rt_tpl_node &node) {
  TextBuilder inner, *before = out;
  enter(node.d, *frame);
  out = &inner;
  Flow flow = execute(node.c);
  out = before;
  if (!failed && flow == Flow::Next) {
    Text text = inner.take();
    Value value = node.b == none ? Value::string(text) : evaluateFilter(program.node(node.b), &text);
    if (!failed)
      assign(node.a, value, *frame);
  }
  leave(node.d, *frame);
  return flow;
}

Interpreter::Flow Interpreter::executeFilterBlock(const ingot_rt_tpl_node &node) {
  TextBuilder inner, *before = out;
  enter(node.d, *frame);
  out = &inner;
  Flow flow = execute(node.c);
  out = before;
  if (!failed && flow == Flow::Next) {
    Text text = inner.take();
    output(evaluateFilter(program.node(node.a), &text));
  }
  leave(node.d, *frame);
  return flow;
}

void Interpreter::executeCallBlock(const ingot_rt_tpl_node &node) {
  Value caller = makeMacro(node.a);
  if (node.b != none)
    return output(evaluateCall(program.node(node.b), &caller));
  Arguments arguments; // a generation block
  output(call(caller, arguments));
}

// ---------------------------------------------------------------------------
// Macros
// ---------------------------------------------------------------------------

Value Interpreter::makeMacro(uint32_t function) {
  auto macro = std::make_shared<MacroObject>();
  macro->function = function;
  macro->outer = frame;
  frame->captured = true;
  return Value::object(Type::Macro, std::move(macro));
}

/// Follows Macro.__call__: positional arguments first, then keywords, what is
/// left goes to kwargs and varargs or is an error.
Value Interpreter::callMacro(const MacroObject &macro, Arguments &arguments) {
  const ingot_rt_tpl_function &function = program.function(macro.function);
  std::span<const uint32_t> parameters = program.list(function.parameters);
  size_t count = parameters.size() / 3;
  std::string name = function.name == none ? "anonymous" : std::string(program.string(function.name));
  Values values(arguments.positional.begin(),
                arguments.positional.begin() + static_cast<ptrdiff_t>(std::min(count, arguments.positional.size())));
  bool foundCaller = values.size() == count && function.explicit_caller != 0;
  auto takeKeyword = [&](std::string_view wanted) {
    for (auto it = arguments.keywords.begin(); it != arguments.keywords.end(); ++it)
      if (it->first == wanted) {
        Value value = std::move(it->second);
        arguments.keywords.erase(it);
        return value;
      }
    return Value();
  };
  while (values.size() < count) {
    std::string_view parameter = program.string(parameters[values.size() * 3]);
    foundCaller |= parameter == "caller";
    values.push_back(takeKeyword(parameter));
  }
  Value caller, keywords, positionals;
  if (function.caller_slot != none && !foundCaller) {
    caller = takeKeyword("caller");
    if (caller.isMissing() || caller.isNone())
      caller = makeUndefined("No caller defined");
  }
  if (function.keywords_slot != none) {
    std::vector<std::pair<Value, Value>> entries;
    for (auto &[key, value] : arguments.keywords)
      entries.emplace_back(Value::string(key), std::move(value));
    keywords = contained(makeDict(std::move(entries)));
  } else if (!arguments.keywords.empty()) {
    const std::string &key = arguments.keywords.front().first;
    return fail("macro '%s' takes no keyword argument '%s'", name.c_str(), key.c_str());
  }
  if (function.positionals_slot != none) {
    auto begin = arguments.positional.begin() + static_cast<ptrdiff_t>(std::min(count, arguments.positional.size()));
    positionals = contained(makeList(Values(begin, arguments.positional.end()), Type::Tuple));
  } else if (arguments.positional.size() > count) {
    return fail("macro '%s' takes not more than %zu argument(s)", name.c_str(), count);
  }
  return failed ? Value() : text(runMacro(macro, std::move(values), caller, keywords, positionals));
}

Text Interpreter::runMacro(const MacroObject &macro, Values values, const Value &caller, const Value &keywords,
                           const Value &positionals) {
  const ingot_rt_tpl_function &function = program.function(macro.function);
  std::span<const uint32_t> parameters = program.list(function.parameters);
  if (macroDepth >= maxDepth) {
    fail("macros call each other more than %u deep", maxDepth);
    return {};
  }
  FunctionFrame *beforeFrame = frame;
  TextBuilder inner, *beforeOut = out;
  frames.push_back(std::make_unique<FunctionFrame>());
  FunctionFrame *mine = frames.back().get();
  mine->slots.resize(function.slots);
  mine->outer = macro.outer;
  ++macroDepth;
  frame = mine;
  out = &inner;
  for (auto [index, value] : {std::pair(function.caller_slot, &caller), std::pair(function.keywords_slot, &keywords),
                              std::pair(function.positionals_slot, &positionals)})
    if (index != none)
      slot(*mine, index) = *value;
  for (size_t i = 0; i < values.size(); ++i)
    slot(*mine, parameters[3 * i + 1]) = values[i];
  enter(function.loads, *mine);
  for (size_t i = 0; i < values.size() && !failed; ++i) {
    Value &parameter = slot(*mine, parameters[3 * i + 1]);
    if (!parameter.isMissing())
      continue;
    Value absent =
        parameters[3 * i + 2] != none
            ? evaluate(parameters[3 * i + 2])
            : makeUndefined("parameter '" + std::string(program.string(parameters[3 * i])) + "' was not provided");
    slot(*mine, parameters[3 * i + 1]) = std::move(absent);
  }
  if (!failed)
    execute(function.body);
  --macroDepth;
  frame = beforeFrame;
  out = beforeOut;
  if (frames.back().get() == mine && !mine->captured)
    frames.pop_back();
  return inner.take();
}

} // namespace ingot::rt::tpl
