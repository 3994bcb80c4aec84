// Recursive descent, one function per rule of Jinja's parser (jinja2/parser.py).
// A rule that fails keeps the first error and returns null.
#include "compiler/Text/TemplateParser.h"
#include "compiler/Import/InputError.h"
#include "compiler/Text/TemplateLexer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace ingot;
using namespace ingot::tpl;

using Kind = Node::Kind;

namespace {

class Parser {
public:
  Parser(std::vector<Token> tokens, StringRef file) : tokens(std::move(tokens)), file(file) {}

  Expected<NodePtr> run() {
    NodePtr result = make(Kind::Template, Place());
    NodeList body;
    bool good = parseBody({}, body);
    if (!good)
      return placedError(file, failedAt, failure);
    result->bodies.push_back(std::move(body));
    return std::move(result);
  }

private:
  const Token &current() const { return tokens[at]; }
  const Token &next() { return tokens[at + 1 < tokens.size() ? at++ : at]; }
  const Token &ahead() const { return tokens[std::min(at + 1, tokens.size() - 1)]; }

  std::nullptr_t fail(Place place, const Twine &what) {
    if (failure.empty()) {
      failure = what.str();
      failedAt = place;
    }
    return nullptr;
  }
  std::nullptr_t failHere(const Twine &what) { return fail(current().place, what); }

  bool takeOperator(StringRef op) {
    if (!current().isOperator(op))
      return false;
    next();
    return true;
  }
  bool takeName(StringRef name) {
    if (!current().isName(name))
      return false;
    next();
    return true;
  }
  bool expectOperator(StringRef op) {
    if (takeOperator(op))
      return true;
    failHere("expected '" + op + "', got " + current().describe());
    return false;
  }
  bool expectKind(Token::Kind kind, StringRef what) {
    if (current().kind == kind) {
      next();
      return true;
    }
    failHere("expected " + what + ", got " + current().describe());
    return false;
  }
  std::optional<std::string> expectAnyName() {
    if (current().kind == Token::Kind::Name)
      return next().text;
    failHere("expected a name, got " + current().describe());
    return std::nullopt;
  }

  static NodePtr make(Kind kind, Place place) { return std::make_unique<Node>(kind, place); }

  /// Every node goes through here once its children are in place.
  NodePtr done(NodePtr node) {
    if (!node)
      return nullptr;
    uint32_t deepest = 0;
    forEachChild(*node, [&](const Node &child) { deepest = std::max(deepest, child.depth); });
    node->depth = deepest + 1;
    if (node->depth > maxTreeDepth)
      return fail(node->place, "nested deeper than " + Twine(maxTreeDepth) + " levels");
    return node;
  }

  /// Counts the rules that are open, so that brackets cannot exhaust the stack.
  struct Nesting {
    explicit Nesting(Parser &parser) : parser(parser) { ++parser.nesting; }
    ~Nesting() { --parser.nesting; }
    bool tooDeep() {
      if (parser.nesting <= maxTreeDepth)
        return false;
      parser.failHere("nested deeper than " + Twine(maxTreeDepth) + " levels");
      return true;
    }
    Parser &parser;
  };

  // -------------------------------------------------------------- statements

  /// Statements and text up to a tag whose name is in `ends`, which becomes the
  /// current token; without `ends`, up to the end of the template.
  bool parseBody(ArrayRef<StringRef> ends, NodeList &body) {
    while (true) {
      const Token &token = current();
      switch (token.kind) {
      case Token::Kind::Data: {
        NodePtr text = make(Kind::Text, token.place);
        text->text = token.text;
        body.push_back(std::move(text));
        next();
        break;
      }
      case Token::Kind::VariableBegin: {
        next();
        NodePtr output = make(Kind::Output, token.place);
        output->first = parseTuple(true, {});
        if (!output->first || !expectKind(Token::Kind::VariableEnd, "'}}'"))
          return false;
        body.push_back(done(std::move(output)));
        if (!body.back())
          return false;
        break;
      }
      case Token::Kind::BlockBegin: {
        next();
        if (current().kind == Token::Kind::Name && is_contained(ends, current().text))
          return true;
        NodePtr statement = parseStatement(ends, body);
        if (!failure.empty())
          return false;
        if (!expectKind(Token::Kind::BlockEnd, "'%}'"))
          return false;
        if (statement)
          body.push_back(std::move(statement));
        break;
      }
      default: {
        if (ends.empty())
          return true;
        std::string wanted;
        for (StringRef end : ends)
          wanted += (wanted.empty() ? "'" : " or '") + end.str() + "'";
        fail(openTags.back(), "the template ends where " + wanted + " is needed for what begins here");
        return false;
      }
      }
    }
  }

  /// The body of a statement whose opening tag ends here.
  bool parseBlock(ArrayRef<StringRef> ends, NodeList &body) {
    Nesting guard(*this);
    takeOperator(":");
    return !guard.tooDeep() && expectKind(Token::Kind::BlockEnd, "'%}'") && parseBody(ends, body);
  }
  bool parseWholeBlock(StringRef end, Node &node) {
    NodeList body;
    if (!parseBlock({end}, body))
      return false;
    next();
    node.bodies.push_back(std::move(body));
    return true;
  }

  NodePtr parseStatement(ArrayRef<StringRef> ends, NodeList &into) {
    const Token &token = current();
    if (token.kind != Token::Kind::Name)
      return failHere("expected the name of a tag, got " + token.describe());
    StringRef name = token.text;
    for (StringRef refused : {"extends", "include", "import", "from", "block", "autoescape"})
      if (name == refused)
        return failHere("the tag '" + name + "' is not supported in a chat template");
    using Rule = NodePtr (Parser::*)();
    Rule rule = StringSwitch<Rule>(name)
                    .Case("for", &Parser::parseFor)
                    .Case("if", &Parser::parseIf)
                    .Case("set", &Parser::parseSet)
                    .Case("with", &Parser::parseWith)
                    .Case("macro", &Parser::parseMacro)
                    .Case("call", &Parser::parseCallBlock)
                    .Case("filter", &Parser::parseFilterBlock)
                    .Case("generation", &Parser::parseGeneration)
                    .Default(nullptr);
    if (rule) {
      openTags.push_back(token.place);
      NodePtr statement = (this->*rule)();
      openTags.pop_back();
      return statement;
    }
    if (name == "print")
      return parsePrint(into);
    if (name == "break" || name == "continue") {
      if (loops.empty() || !loops.back())
        return failHere("'" + name + "' outside of a loop");
      next();
      return make(name == "break" ? Kind::Break : Kind::Continue, token.place);
    }
    std::string wanted;
    for (StringRef end : ends)
      wanted += (wanted.empty() ? "; expected '" : " or '") + end.str() + "'";
    return failHere("unknown tag " + quote(name) + wanted + (wanted.empty() ? "" : " here"));
  }

  NodePtr parsePrint(NodeList &into) {
    next();
    for (bool first = true; current().kind != Token::Kind::BlockEnd; first = false) {
      if (!first && !expectOperator(","))
        return nullptr;
      NodePtr output = make(Kind::Output, current().place);
      output->first = parseExpression();
      if (!output->first)
        return nullptr;
      into.push_back(done(std::move(output)));
    }
    return nullptr;
  }

  NodePtr parseFor() {
    NodePtr node = make(Kind::For, next().place);
    node->first = parseTarget({"in"}, false);
    if (!node->first)
      return nullptr;
    if (!takeName("in"))
      return failHere("expected 'in', got " + current().describe());
    node->second = parseTuple(false, {"recursive"});
    if (!node->second)
      return nullptr;
    if (takeName("if")) {
      node->third = parseExpression();
      if (!node->third)
        return nullptr;
    }
    if (current().isName("recursive"))
      return failHere("recursive loops are not supported");
    NodeList body, otherwise;
    loops.push_back(true);
    bool good = parseBlock({"endfor", "else"}, body);
    loops.pop_back();
    if (!good)
      return nullptr;
    node->bodies.push_back(std::move(body));
    if (next().text == "else") {
      if (!parseWholeBlock("endfor", *node))
        return nullptr;
    }
    return done(std::move(node));
  }

  NodePtr parseIf() {
    NodePtr node = make(Kind::If, next().place);
    while (true) {
      NodePtr test = parseTuple(false, {});
      NodeList body;
      if (!test || !parseBlock({"elif", "else", "endif"}, body))
        return nullptr;
      node->items.push_back(std::move(test));
      node->bodies.push_back(std::move(body));
      StringRef end = next().text;
      if (end == "elif")
        continue;
      if (end == "else" && !parseWholeBlock("endif", *node))
        return nullptr;
      return done(std::move(node));
    }
  }

  NodePtr parseSet() {
    Place place = next().place;
    NodePtr target = parseTarget({}, true);
    if (!target)
      return nullptr;
    bool simple = takeOperator("=");
    NodePtr node = make(simple ? Kind::Set : Kind::SetBlock, place);
    node->first = std::move(target);
    if (simple) {
      node->second = parseTuple(true, {});
      return node->second ? done(std::move(node)) : nullptr;
    }
    node->second = parseFilters(nullptr);
    if (!failure.empty() || !parseInner("endset", *node))
      return nullptr;
    return done(std::move(node));
  }

  /// A body that is a function or a buffer of its own: break and continue of a
  /// loop around it do not reach through it.
  bool parseInner(StringRef end, Node &node, bool isFunction = false) {
    if (isFunction)
      loops.push_back(false);
    bool good = parseWholeBlock(end, node);
    if (isFunction)
      loops.pop_back();
    return good;
  }

  NodePtr parseWith() {
    NodePtr node = make(Kind::With, next().place);
    while (current().kind != Token::Kind::BlockEnd) {
      if (!node->items.empty() && !expectOperator(","))
        return nullptr;
      NodePtr target = parseTarget({}, false);
      if (!target || !expectOperator("="))
        return nullptr;
      markTarget(*target, Node::Use::Parameter);
      NodePtr value = parseExpression();
      if (!value)
        return nullptr;
      node->items.push_back(std::move(target));
      node->defaults.push_back(std::move(value));
    }
    return parseInner("endwith", *node) ? done(std::move(node)) : nullptr;
  }

  /// The parameters of a macro or a call block, in parentheses.
  bool parseSignature(Node &node) {
    if (!expectOperator("("))
      return false;
    while (!current().isOperator(")")) {
      if (!node.items.empty() && !expectOperator(","))
        return false;
      Place place = current().place;
      std::optional<std::string> name = expectAnyName();
      if (!name)
        return false;
      if (isConstantName(*name)) {
        fail(place, "cannot assign to '" + *name + "'");
        return false;
      }
      NodePtr parameter = make(Kind::Name, place);
      parameter->text = *name;
      parameter->use = Node::Use::Parameter;
      if (takeOperator("=")) {
        NodePtr value = parseExpression();
        if (!value)
          return false;
        node.defaults.push_back(std::move(value));
      } else if (!node.defaults.empty()) {
        fail(place, "a parameter without a default follows one with a default");
        return false;
      }
      node.items.push_back(std::move(parameter));
    }
    next();
    return true;
  }

  NodePtr parseMacro() {
    NodePtr node = make(Kind::Macro, next().place);
    std::optional<std::string> name = expectAnyName();
    if (!name)
      return nullptr;
    if (isConstantName(*name))
      return fail(node->place, "cannot assign to '" + *name + "'");
    node->text = *name;
    if (!parseSignature(*node) || !parseInner("endmacro", *node, true))
      return nullptr;
    return done(std::move(node));
  }

  NodePtr parseCallBlock() {
    NodePtr node = make(Kind::CallBlock, next().place);
    if (current().isOperator("(") && !parseSignature(*node))
      return nullptr;
    node->first = parseExpression();
    if (!node->first)
      return nullptr;
    if (node->first->kind != Kind::Call)
      return fail(node->first->place, "expected a call");
    return parseInner("endcall", *node, true) ? done(std::move(node)) : nullptr;
  }

  NodePtr parseGeneration() {
    NodePtr node = make(Kind::Generation, next().place);
    return parseInner("endgeneration", *node, true) ? done(std::move(node)) : nullptr;
  }

  NodePtr parseFilterBlock() {
    NodePtr node = make(Kind::FilterBlock, next().place);
    node->first = parseFilters(nullptr, /*inlineStart=*/true);
    if (!node->first)
      return nullptr;
    return parseInner("endfilter", *node) ? done(std::move(node)) : nullptr;
  }

  // ----------------------------------------------------------------- targets

  static bool isConstantName(StringRef name) {
    return is_contained({"true", "false", "none", "True", "False", "None"}, name);
  }

  void markTarget(Node &node, Node::Use use) {
    node.use = use;
    for (NodePtr &item : node.items)
      markTarget(*item, use);
  }

  /// A name, a tuple of targets, and `namespace.attribute` where `allowed`.
  NodePtr parseTarget(ArrayRef<StringRef> ends, bool allowed) {
    NodePtr target = parseTupleOf(ends, false, [&] { return parsePrimary(allowed); });
    if (!target || !checkTarget(*target))
      return nullptr;
    markTarget(*target, Node::Use::Store);
    return target;
  }

  bool checkTarget(const Node &node) {
    if (node.kind == Kind::Name || node.kind == Kind::NamespaceAttribute)
      return true;
    if (node.kind == Kind::Tuple)
      return all_of(node.items, [&](const NodePtr &item) { return checkTarget(*item); });
    fail(node.place, "cannot assign to this");
    return false;
  }

  // ------------------------------------------------------------- expressions

  bool isTupleEnd(ArrayRef<StringRef> ends) const {
    const Token &token = current();
    return token.kind == Token::Kind::VariableEnd || token.kind == Token::Kind::BlockEnd || token.isOperator(")") ||
           (token.kind == Token::Kind::Name && is_contained(ends, token.text));
  }

  /// One item, or a tuple where commas follow.
  template <typename Item>
  NodePtr parseTupleOf(ArrayRef<StringRef> ends, bool parentheses, Item item) {
    Nesting guard(*this);
    if (guard.tooDeep())
      return nullptr;
    Place place = current().place;
    NodeList items;
    bool isTuple = false;
    while (true) {
      if (!items.empty() && !expectOperator(","))
        return nullptr;
      if (isTupleEnd(ends))
        break;
      NodePtr one = item();
      if (!one)
        return nullptr;
      items.push_back(std::move(one));
      if (!current().isOperator(","))
        break;
      isTuple = true;
    }
    if (!isTuple && !items.empty())
      return std::move(items.front());
    if (!isTuple && !parentheses)
      return failHere("expected an expression, got " + current().describe());
    NodePtr tuple = make(Kind::Tuple, place);
    tuple->items = std::move(items);
    return done(std::move(tuple));
  }

  NodePtr parseTuple(bool conditional, ArrayRef<StringRef> ends, bool parentheses = false) {
    return parseTupleOf(ends, parentheses, [&] { return conditional ? parseExpression() : parseOr(); });
  }

  NodePtr parseExpression() {
    Nesting guard(*this);
    if (guard.tooDeep())
      return nullptr;
    Place place = current().place;
    NodePtr value = parseOr();
    while (value && takeName("if")) {
      NodePtr node = make(Kind::Conditional, place);
      node->first = std::move(value);
      node->second = parseOr();
      if (!node->second)
        return nullptr;
      if (takeName("else")) {
        node->third = parseExpression();
        if (!node->third)
          return nullptr;
      }
      value = done(std::move(node));
    }
    return value;
  }

  NodePtr makeBinary(Kind kind, Place place, NodePtr left, NodePtr right, uint32_t operation = 0) {
    if (!left || !right)
      return nullptr;
    NodePtr node = make(kind, place);
    node->first = std::move(left);
    node->second = std::move(right);
    node->operation = operation;
    return done(std::move(node));
  }

  NodePtr parseOr() {
    NodePtr left = parseAnd();
    while (left && current().isName("or")) {
      Place place = next().place;
      left = makeBinary(Kind::Or, place, std::move(left), parseAnd());
    }
    return left;
  }

  NodePtr parseAnd() {
    NodePtr left = parseNot();
    while (left && current().isName("and")) {
      Place place = next().place;
      left = makeBinary(Kind::And, place, std::move(left), parseNot());
    }
    return left;
  }

  NodePtr parseUnaryOf(Kind kind, NodePtr (Parser::*operand)()) {
    Nesting guard(*this);
    if (guard.tooDeep())
      return nullptr;
    NodePtr node = make(kind, next().place);
    node->first = (this->*operand)();
    return node->first ? done(std::move(node)) : nullptr;
  }

  NodePtr parseNot() { return current().isName("not") ? parseUnaryOf(Kind::Not, &Parser::parseNot) : parseCompare(); }

  NodePtr parseCompare() {
    static constexpr std::pair<StringLiteral, uint32_t> operators[] = {
        {"==", INGOT_RT_TPL_EQ}, {"!=", INGOT_RT_TPL_NE}, {"<", INGOT_RT_TPL_LT},
        {"<=", INGOT_RT_TPL_LE}, {">", INGOT_RT_TPL_GT},  {">=", INGOT_RT_TPL_GE}};
    NodePtr value = parseSum();
    if (!value)
      return nullptr;
    NodePtr node = make(Kind::Compare, current().place);
    while (true) {
      const auto *op = find_if(operators, [&](const auto &entry) { return current().isOperator(entry.first); });
      if (op != std::end(operators)) {
        next();
        node->operations.push_back(op->second);
      } else if (takeName("in")) {
        node->operations.push_back(INGOT_RT_TPL_IN);
      } else if (current().isName("not") && ahead().isName("in")) {
        next();
        next();
        node->operations.push_back(INGOT_RT_TPL_NOT_IN);
      } else {
        break;
      }
      NodePtr right = parseSum();
      if (!right)
        return nullptr;
      node->items.push_back(std::move(right));
    }
    if (node->operations.empty())
      return value;
    node->first = std::move(value);
    return done(std::move(node));
  }

  NodePtr parseChain(ArrayRef<std::pair<StringLiteral, uint32_t>> operators, NodePtr (Parser::*operand)()) {
    NodePtr left = (this->*operand)();
    while (left) {
      const auto *op = find_if(operators, [&](const auto &entry) { return current().isOperator(entry.first); });
      if (op == operators.end())
        return left;
      Place place = next().place;
      left = makeBinary(Kind::Binary, place, std::move(left), (this->*operand)(), op->second);
    }
    return nullptr;
  }

  NodePtr parseSum() {
    static constexpr std::pair<StringLiteral, uint32_t> operators[] = {{"+", INGOT_RT_TPL_ADD},
                                                                       {"-", INGOT_RT_TPL_SUB}};
    return parseChain(operators, &Parser::parseConcat);
  }

  NodePtr parseConcat() {
    NodePtr first = parseProduct();
    if (!first || !current().isOperator("~"))
      return first;
    NodePtr node = make(Kind::Concat, current().place);
    node->items.push_back(std::move(first));
    while (takeOperator("~")) {
      NodePtr item = parseProduct();
      if (!item)
        return nullptr;
      node->items.push_back(std::move(item));
    }
    return done(std::move(node));
  }

  NodePtr parseProduct() {
    static constexpr std::pair<StringLiteral, uint32_t> operators[] = {
        {"*", INGOT_RT_TPL_MUL}, {"/", INGOT_RT_TPL_DIV}, {"//", INGOT_RT_TPL_FLOORDIV}, {"%", INGOT_RT_TPL_MOD}};
    return parseChain(operators, &Parser::parsePower);
  }

  /// Unlike Python's, Jinja's `**` groups from the left: 2 ** 3 ** 2 is 64.
  NodePtr parsePower() {
    static constexpr std::pair<StringLiteral, uint32_t> operators[] = {{"**", INGOT_RT_TPL_POW}};
    return parseChain(operators, &Parser::parseUnary);
  }

  NodePtr parseUnary() { return parseSigned(true); }
  NodePtr parseUnaryOnly() { return parseSigned(false); }

  NodePtr parseSigned(bool filters) {
    NodePtr node;
    if (current().isOperator("-"))
      node = parseUnaryOf(Kind::Negate, &Parser::parseUnaryOnly);
    else if (current().isOperator("+"))
      node = parseUnaryOf(Kind::Positive, &Parser::parseUnaryOnly);
    else
      node = parsePrimary(false);
    node = parsePostfix(std::move(node));
    return filters ? parseFiltersAndTests(std::move(node)) : std::move(node);
  }

  NodePtr parsePrimary(bool namespaces) {
    const Token &token = current();
    switch (token.kind) {
    case Token::Kind::Name:
      return parseName(namespaces);
    case Token::Kind::String: {
      NodePtr node = make(Kind::String, token.place);
      while (current().kind == Token::Kind::String)
        node->text += next().text;
      return node;
    }
    case Token::Kind::Integer: {
      NodePtr node = make(Kind::Integer, token.place);
      node->integer = next().integer;
      return node;
    }
    case Token::Kind::Float: {
      NodePtr node = make(Kind::Float, token.place);
      node->real = next().real;
      return node;
    }
    default:
      break;
    }
    if (takeOperator("(")) {
      NodePtr node = parseTuple(true, {}, /*parentheses=*/true);
      return node && expectOperator(")") ? std::move(node) : nullptr;
    }
    if (token.isOperator("["))
      return parseItems(Kind::List, "]");
    if (token.isOperator("{"))
      return parseItems(Kind::Dict, "}");
    return failHere("unexpected " + token.describe());
  }

  NodePtr parseName(bool namespaces) {
    const Token &token = next();
    StringRef name = token.text;
    if (is_contained({"true", "True", "false", "False"}, name)) {
      NodePtr node = make(Kind::Bool, token.place);
      node->integer = name.equals_insensitive("true");
      return node;
    }
    if (name == "none" || name == "None")
      return make(Kind::None, token.place);
    NodePtr node = make(Kind::Name, token.place);
    node->text = name.str();
    if (namespaces && takeOperator(".")) {
      node->kind = Kind::NamespaceAttribute;
      std::optional<std::string> attribute = expectAnyName();
      if (!attribute)
        return nullptr;
      node->attribute = *attribute;
    }
    return node;
  }

  NodePtr parseItems(Kind kind, StringRef end) {
    NodePtr node = make(kind, next().place);
    while (!current().isOperator(end)) {
      if (!node->items.empty() && !expectOperator(","))
        return nullptr;
      if (current().isOperator(end))
        break;
      NodePtr item = parseExpression();
      if (!item)
        return nullptr;
      node->items.push_back(std::move(item));
      if (kind != Kind::Dict)
        continue;
      if (!expectOperator(":"))
        return nullptr;
      NodePtr value = parseExpression();
      if (!value)
        return nullptr;
      node->items.push_back(std::move(value));
    }
    next();
    return done(std::move(node));
  }

  NodePtr parsePostfix(NodePtr node) {
    while (node) {
      if (current().isOperator("."))
        node = parseAttribute(std::move(node));
      else if (current().isOperator("["))
        node = parseSubscript(std::move(node));
      else if (current().isOperator("("))
        node = parseCall(std::move(node));
      else
        break;
    }
    return node;
  }

  NodePtr parseAttribute(NodePtr object) {
    Place place = next().place;
    if (current().kind == Token::Kind::Integer) {
      NodePtr index = make(Kind::Integer, current().place);
      index->integer = next().integer;
      return makeBinary(Kind::GetItem, place, std::move(object), std::move(index));
    }
    std::optional<std::string> name = expectAnyName();
    if (!name)
      return nullptr;
    NodePtr node = make(Kind::GetAttribute, place);
    node->first = std::move(object);
    node->text = *name;
    return done(std::move(node));
  }

  NodePtr parseSubscript(NodePtr object) {
    Place place = next().place;
    NodeList items;
    while (!current().isOperator("]")) {
      if (!items.empty() && !expectOperator(","))
        return nullptr;
      NodePtr item = parseSliceOrItem();
      if (!item)
        return nullptr;
      items.push_back(std::move(item));
    }
    next();
    NodePtr index;
    if (items.size() == 1) {
      index = std::move(items.front());
    } else {
      for (const NodePtr &item : items)
        if (item->kind == Kind::Slice)
          return fail(item->place, "a slice among several subscripts is not supported");
      index = make(Kind::Tuple, place);
      index->items = std::move(items);
      index = done(std::move(index));
    }
    return makeBinary(Kind::GetItem, place, std::move(object), std::move(index));
  }

  NodePtr parseSliceOrItem() {
    Place place = current().place;
    NodePtr start;
    if (!current().isOperator(":")) {
      start = parseExpression();
      if (!start || !current().isOperator(":"))
        return start;
    }
    next();
    NodePtr slice = make(Kind::Slice, place);
    slice->first = std::move(start);
    auto ends = [&] { return current().isOperator("]") || current().isOperator(","); };
    if (!current().isOperator(":") && !ends()) {
      slice->second = parseExpression();
      if (!slice->second)
        return nullptr;
    }
    if (takeOperator(":") && !ends()) {
      slice->third = parseExpression();
      if (!slice->third)
        return nullptr;
    }
    return done(std::move(slice));
  }

  bool parseArguments(CallArguments &arguments) {
    Place place = current().place;
    Nesting guard(*this);
    if (guard.tooDeep() || !expectOperator("("))
      return false;
    auto wrong = [&] {
      fail(place, "the arguments of this call are in an order that is not allowed");
      return false;
    };
    for (bool first = true; !current().isOperator(")"); first = false) {
      if (!first) {
        if (!expectOperator(","))
          return false;
        if (current().isOperator(")"))
          break;
      }
      if (takeOperator("*")) {
        if (arguments.dynamic || arguments.dynamicKeywords)
          return wrong();
        arguments.dynamic = parseExpression();
        if (!arguments.dynamic)
          return false;
      } else if (takeOperator("**")) {
        if (arguments.dynamicKeywords)
          return wrong();
        arguments.dynamicKeywords = parseExpression();
        if (!arguments.dynamicKeywords)
          return false;
      } else if (current().kind == Token::Kind::Name && ahead().isOperator("=")) {
        if (arguments.dynamicKeywords)
          return wrong();
        std::string name = next().text;
        next();
        if (any_of(arguments.keywords, [&](const auto &other) { return other.first == name; })) {
          fail(place, "the keyword argument '" + name + "' is given twice");
          return false;
        }
        NodePtr value = parseExpression();
        if (!value)
          return false;
        arguments.keywords.emplace_back(std::move(name), std::move(value));
      } else {
        if (arguments.dynamic || arguments.dynamicKeywords || !arguments.keywords.empty())
          return wrong();
        NodePtr value = parseExpression();
        if (!value)
          return false;
        arguments.positional.push_back(std::move(value));
      }
    }
    return expectOperator(")");
  }

  NodePtr parseCall(NodePtr callee) {
    NodePtr node = make(Kind::Call, current().place);
    node->first = std::move(callee);
    return parseArguments(node->arguments) ? done(std::move(node)) : nullptr;
  }

  NodePtr parseFiltersAndTests(NodePtr node) {
    while (node) {
      if (current().isOperator("|"))
        node = parseFilters(std::move(node));
      else if (current().isName("is"))
        node = parseTest(std::move(node));
      else if (current().isOperator("("))
        node = parseCall(std::move(node));
      else
        break;
    }
    return node;
  }

  std::optional<std::string> parseDottedName() {
    std::optional<std::string> name = expectAnyName();
    while (name && takeOperator(".")) {
      std::optional<std::string> part = expectAnyName();
      if (!part)
        return std::nullopt;
      *name += "." + *part;
    }
    return name;
  }

  /// Filters one after the other; a null `node` is the text of a block. Null
  /// without an error: there is no filter.
  NodePtr parseFilters(NodePtr node, bool inlineStart = false) {
    while (current().isOperator("|") || inlineStart) {
      if (!inlineStart)
        next();
      inlineStart = false;
      NodePtr filter = make(Kind::Filter, current().place);
      std::optional<std::string> name = parseDottedName();
      if (!name)
        return nullptr;
      filter->text = *name;
      filter->first = std::move(node);
      if (current().isOperator("(") && !parseArguments(filter->arguments))
        return nullptr;
      node = done(std::move(filter));
      if (!node)
        return nullptr;
    }
    return node;
  }

  NodePtr parseTest(NodePtr node) {
    next();
    bool negated = takeName("not");
    NodePtr test = make(Kind::Test, current().place);
    std::optional<std::string> name = parseDottedName();
    if (!name)
      return nullptr;
    test->text = *name;
    test->first = std::move(node);
    const Token &token = current();
    bool begins = token.kind == Token::Kind::String || token.kind == Token::Kind::Integer ||
                  token.kind == Token::Kind::Float || token.isOperator("[") || token.isOperator("{") ||
                  (token.kind == Token::Kind::Name && !is_contained({"else", "or", "and"}, token.text));
    if (token.isOperator("(")) {
      if (!parseArguments(test->arguments))
        return nullptr;
    } else if (begins) {
      if (token.isName("is"))
        return failHere("tests cannot be chained with 'is'");
      NodePtr argument = parsePostfix(parsePrimary(false));
      if (!argument)
        return nullptr;
      test->arguments.positional.push_back(std::move(argument));
    }
    test = done(std::move(test));
    if (!test || !negated)
      return test;
    NodePtr result = make(Kind::Not, test->place);
    result->first = std::move(test);
    return done(std::move(result));
  }

  std::vector<Token> tokens;
  StringRef file;
  size_t at = 0;
  uint32_t nesting = 0;
  /// Loops and functions that are open, true for a loop: break and continue need
  /// one innermost.
  std::vector<bool> loops;
  std::vector<Place> openTags; ///< of the statements that are open
  std::string failure;         ///< the first error
  Place failedAt;
};

} // namespace

Expected<NodePtr> tpl::parseTemplate(StringRef source, StringRef file) {
  Expected<std::vector<Token>> tokens = lexTemplate(source, file);
  if (!tokens)
    return tokens.takeError();
  return Parser(std::move(*tokens), file).run();
}
