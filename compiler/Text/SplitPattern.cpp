// Pattern -> syntax tree -> program -> automaton, see SplitPattern.h.
#include "compiler/Text/SplitPattern.h"
#include "compiler/Text/UnicodeData.h"
#include "ingot_rt/image_tokenizer.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/ConvertUTF.h"
#include <map>
#include <memory>

using namespace llvm;
using namespace ingot;

namespace {

constexpr uint32_t unlimited = UINT32_MAX;
/// Bounds on what a pattern may grow to; public tokenizers stay below a tenth.
constexpr size_t maxInstructions = 20000, maxStates = 4096, maxDepth = 100;

// ---------------------------------------------------------------------------
// Syntax tree
// ---------------------------------------------------------------------------

struct Node;
using NodePtr = std::unique_ptr<Node>;

struct Node {
  enum class Kind { Set, Concat, Alternate, Repeat, LookAhead };
  Kind kind;
  CodePointSet set;                   ///< Set; LookAhead: what the next code point is or is not
  std::vector<NodePtr> children = {}; ///< Concat, Alternate; Repeat: one
  uint32_t least = 0, most = 0;       ///< Repeat
  bool lazy = false;                  ///< Repeat: fewest first
  bool negative = false;              ///< LookAhead; the end counts as no member
};

NodePtr makeNode(Node::Kind kind, CodePointSet set = {}) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  node->set = std::move(set);
  return node;
}

/// Whether `node` may match nothing.
bool isNullable(const Node &node) {
  auto nullable = [](const NodePtr &child) { return isNullable(*child); };
  switch (node.kind) {
  case Node::Kind::Set:
    return false;
  case Node::Kind::LookAhead:
    return true;
  case Node::Kind::Concat:
    return all_of(node.children, nullable);
  case Node::Kind::Alternate:
    return any_of(node.children, nullable);
  case Node::Kind::Repeat:
    return node.least == 0 || nullable(node.children.front());
  }
  llvm_unreachable("kind of node");
}

// ---------------------------------------------------------------------------
// Parser
// ---------------------------------------------------------------------------

class Parser {
public:
  Parser(StringRef pattern, PatternDialect dialect) : pattern(pattern), dialect(dialect) {}

  Expected<NodePtr> parse() {
    NodePtr node = alternatives(/*ignoreCase=*/false, /*depth=*/0);
    if (node && at < pattern.size())
      node = fail("unmatched ')'");
    if (!node)
      return createStringError(inconvertibleErrorCode(), "pattern: at byte " + Twine(errorAt) + ": " + message);
    return std::move(node);
  }

private:
  std::nullptr_t fail(const Twine &what) {
    if (message.empty()) {
      message = what.str();
      errorAt = at;
    }
    return nullptr;
  }
  std::nullptr_t unsupported(const Twine &what) { return fail(what + " is not supported yet"); }

  bool done() const { return at >= pattern.size(); }
  char peek() const { return done() ? '\0' : pattern[at]; }
  bool take(StringRef text) {
    if (!pattern.substr(at).starts_with(text))
      return false;
    at += text.size();
    return true;
  }

  /// Reads a code point; false with a message if there is none.
  bool codePoint(uint32_t &value) {
    const auto *begin = reinterpret_cast<const UTF8 *>(pattern.data()) + at;
    const auto *next = begin;
    const auto *end = reinterpret_cast<const UTF8 *>(pattern.data()) + pattern.size();
    UTF32 result;
    if (convertUTF8Sequence(&next, end, &result, strictConversion) != conversionOK) {
      fail(done() ? "the pattern ends here" : "invalid UTF-8");
      return false;
    }
    at += next - begin;
    value = result;
    return true;
  }

  NodePtr alternatives(bool ignoreCase, size_t depth) {
    if (depth > maxDepth)
      return fail("groups are nested more than " + Twine(maxDepth) + " deep");
    NodePtr node = makeNode(Node::Kind::Alternate);
    do {
      NodePtr branch = sequence(ignoreCase, depth);
      if (!branch)
        return nullptr;
      node->children.push_back(std::move(branch));
    } while (take("|"));
    return node->children.size() == 1 ? std::move(node->children.front()) : std::move(node);
  }

  NodePtr sequence(bool ignoreCase, size_t depth) {
    NodePtr node = makeNode(Node::Kind::Concat);
    lastLetter = 0;
    while (!done() && peek() != '|' && peek() != ')') {
      NodePtr part = atom(ignoreCase, depth);
      if (part)
        part = quantified(std::move(part));
      if (!part)
        return nullptr;
      node->children.push_back(std::move(part));
    }
    return node->children.size() == 1 ? std::move(node->children.front()) : std::move(node);
  }

  NodePtr atom(bool ignoreCase, size_t depth) {
    switch (peek()) {
    case '(':
      return group(ignoreCase, depth);
    case '[':
      ++at;
      return characterClass(ignoreCase);
    case '.':
      ++at;
      return makeNode(Node::Kind::Set, CodePointSet{{'\n', '\n'}}.complement());
    case '^':
      return unsupported("the anchor '^'");
    case '$': {
      // The end of a line, in Oniguruma's syntax always: no character but the
      // line feed comes next.
      ++at;
      NodePtr node = makeNode(Node::Kind::LookAhead, CodePointSet{{'\n', '\n'}}.complement());
      node->negative = true;
      return node;
    }
    case '*':
    case '+':
    case '?':
      return fail("nothing for '" + Twine(peek()) + "' to repeat");
    default:
      break;
    }
    CodePointSet set;
    if (peek() == '\\') {
      uint32_t single = 0;
      bool isSingle = false;
      if (!escape(set, single, isSingle))
        return nullptr;
      if (!isSingle)
        return makeNode(Node::Kind::Set, std::move(set));
      return literal(single, ignoreCase);
    }
    uint32_t value;
    if (!codePoint(value))
      return nullptr;
    return literal(value, ignoreCase);
  }

  NodePtr literal(uint32_t value, bool ignoreCase) {
    CodePointSet set = {{value, value}};
    if (ignoreCase && !foldCase(set))
      return nullptr;
    if (ignoreCase) {
      // Full case folding makes one code point equal several: U+00DF is "ss".
      uint32_t letter = value | 0x20;
      for (StringRef pair : {"ss", "ff", "fi", "fl", "st"})
        if (uint32_t(pair[0]) == lastLetter && uint32_t(pair[1]) == letter)
          return unsupported("'" + pair + "' without regard to case");
      lastLetter = letter;
    }
    return makeNode(Node::Kind::Set, std::move(set));
  }

  /// Adds what differs from ASCII letters of `set` only in case.
  bool foldCase(CodePointSet &set) {
    if (!set.ranges().empty() && set.ranges().back().last >= 0x80) {
      unsupported("a character outside ASCII without regard to case");
      return false;
    }
    CodePointSet folded = set;
    for (uint32_t lower = 'a'; lower <= 'z'; ++lower) {
      uint32_t upper = lower - 0x20;
      if (!set.contains(lower) && !set.contains(upper))
        continue;
      folded.add({{lower, lower}, {upper, upper}});
      if (lower == 's')
        folded.add(0x17f, 0x17f); // LATIN SMALL LETTER LONG S
      if (lower == 'k')
        folded.add(0x212a, 0x212a); // KELVIN SIGN
    }
    set = std::move(folded);
    return true;
  }

  NodePtr group(bool ignoreCase, size_t depth) {
    size_t start = at;
    ++at;
    bool look = false, negative = false;
    if (take("?")) {
      if (take("!")) {
        look = negative = true;
      } else if (take("=")) {
        look = true;
      } else if (take("i:")) {
        ignoreCase = true;
      } else if (!take(":")) {
        at = start;
        StringRef shown = pattern.substr(start).take_until([](char c) { return c == ':' || c == ')'; });
        return unsupported("the group '" + shown.take_front(16) + "...'");
      }
    } else if (peek() == '*') {
      at = start;
      return unsupported("the group '(*...'");
    }
    NodePtr node = alternatives(ignoreCase, depth + 1);
    lastLetter = 0;
    if (!node)
      return nullptr;
    if (!take(")"))
      return fail("missing ')'");
    if (!look)
      return node;
    if (node->kind != Node::Kind::Set) {
      at = start;
      return unsupported("looking ahead for more than one character");
    }
    node->kind = Node::Kind::LookAhead;
    node->negative = negative;
    return node;
  }

  NodePtr quantified(NodePtr part) {
    uint32_t least, most;
    bool interval = false;
    size_t start = at;
    if (take("*")) {
      least = 0;
      most = unlimited;
    } else if (take("+")) {
      least = 1;
      most = unlimited;
    } else if (take("?")) {
      least = 0;
      most = 1;
    } else if (peek() == '{' && readInterval(least, most)) {
      interval = true;
    } else {
      return part;
    }
    if (message.size())
      return nullptr;
    bool lazy = false;
    if (peek() == '+')
      return unsupported("a possessive quantifier");
    if (peek() == '?') {
      if (interval)
        return unsupported("'?' after '{...}'");
      lazy = take("?");
    }
    if (peek() == '*' || peek() == '+' || peek() == '?')
      return unsupported("a quantifier of a quantifier");
    if (part->kind == Node::Kind::LookAhead || (most > 1 && isNullable(*part))) {
      at = start;
      return unsupported("repeating what may be empty");
    }
    NodePtr node = makeNode(Node::Kind::Repeat);
    node->least = least;
    node->most = most;
    node->lazy = lazy;
    node->children.push_back(std::move(part));
    return node;
  }

  /// Reads {n}, {n,}, {,m} or {n,m}; any other '{' is a literal.
  bool readInterval(uint32_t &least, uint32_t &most) {
    StringRef rest = pattern.substr(at + 1), inside = rest.take_until([](char c) { return c == '}'; });
    if (inside.size() == rest.size() || inside.empty() || inside.find_first_not_of("0123456789,") != StringRef::npos)
      return false;
    auto [first, second] = inside.split(',');
    bool comma = inside.contains(',');
    if ((first.empty() && second.empty()) || second.contains(','))
      return false;
    least = 0;
    most = unlimited;
    if ((!first.empty() && first.getAsInteger(10, least)) || (!second.empty() && second.getAsInteger(10, most)) ||
        least > maxInstructions || (most != unlimited && most > maxInstructions)) {
      fail("the interval '{" + inside + "}' is too large");
      return true;
    }
    if (!comma)
      most = least;
    if (most < least)
      fail("the interval '{" + inside + "}' is empty");
    at += inside.size() + 2;
    return true;
  }

  /// Reads an escape, the backslash included: one code point or a set.
  bool escape(CodePointSet &set, uint32_t &single, bool &isSingle) {
    size_t start = at++;
    if (done()) {
      fail("the pattern ends after '\\'");
      return false;
    }
    const char letter = pattern[at];
    isSingle = true;
    static const DenseMap<char, char> controls = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'},  {'f', '\f'},
                                                  {'v', '\v'}, {'a', '\a'}, {'e', '\x1b'}};
    if (!isAlnum(letter))
      return codePoint(single);
    if (auto found = controls.find(letter); found != controls.end()) {
      ++at;
      single = static_cast<unsigned char>(found->second);
      return true;
    }
    ++at;
    if (letter == 'x' || letter == 'u')
      return hexEscape(letter, single);
    isSingle = false;
    if (letter == 'p' || letter == 'P')
      return property(letter == 'P', set);
    switch (toLower(letter)) {
    case 's':
      set = whiteSpace();
      break;
    case 'd':
      set = *generalCategory("Nd");
      break;
    case 'w':
      set = dialect == PatternDialect::Rust ? addedTokenWord() : patternWord();
      break;
    default:
      at = start;
      unsupported("'\\" + Twine(letter) + "'");
      return false;
    }
    if (isUpper(letter))
      set = set.complement();
    return true;
  }

  /// \xHH, \x{H...}, \uHHHH.
  bool hexEscape(char letter, uint32_t &value) {
    StringRef digits;
    if (letter == 'x' && take("{")) {
      digits = pattern.substr(at).take_until([](char c) { return c == '}'; });
      at += digits.size();
      if (!take("}"))
        digits = "";
    } else {
      digits = pattern.substr(at, letter == 'x' ? 2 : 4);
      at += digits.size();
    }
    if (digits.empty() || digits.getAsInteger(16, value) || value > lastCodePoint) {
      fail("not a code point in hexadecimal");
      return false;
    }
    // In Oniguruma \xHH above 7F is a byte, not a code point.
    if (letter == 'x' && digits.size() == 2 && value >= 0x80) {
      unsupported("'\\x" + digits + "' (a byte)");
      return false;
    }
    return true;
  }

  bool property(bool negative, CodePointSet &set) {
    if (!take("{")) {
      fail("expected '{' after \\p");
      return false;
    }
    negative ^= take("^");
    StringRef name = pattern.substr(at).take_until([](char c) { return c == '}'; });
    std::optional<CodePointSet> found = generalCategory(name);
    if (!found) {
      unsupported("the property '" + name.take_front(32) + "'");
      return false;
    }
    at += name.size();
    if (!take("}")) {
      fail("missing '}'");
      return false;
    }
    set = negative ? found->complement() : std::move(*found);
    return true;
  }

  /// A class, after its '['.
  NodePtr characterClass(bool ignoreCase) {
    bool negative = take("^");
    CodePointSet set;
    if (peek() == ']')
      return unsupported("an empty class, or ']' as its first character,");
    while (!take("]")) {
      if (done())
        return fail("missing ']'");
      if (peek() == '[')
        return unsupported("a class inside a class");
      if (pattern.substr(at).starts_with("&&"))
        return unsupported("'&&' in a class");
      uint32_t first = 0;
      bool isSingle = true;
      CodePointSet part;
      if (peek() == '\\' ? !escape(part, first, isSingle) : !codePoint(first))
        return nullptr;
      if (!isSingle) {
        if (ignoreCase)
          return unsupported("a class without regard to case that has sets");
        set.add(part);
        if (peek() == '-' && pattern.substr(at + 1, 1) != "]")
          return unsupported("a range that starts with a set");
        continue;
      }
      uint32_t last = first;
      if (peek() == '-' && pattern.substr(at + 1, 1) != "]") {
        ++at;
        if (done())
          return fail("missing ']'");
        if (peek() == '[')
          return unsupported("a class inside a class");
        if (peek() == '\\' ? !escape(part, last, isSingle) : !codePoint(last))
          return nullptr;
        if (!isSingle)
          return unsupported("a range that ends with a set");
        if (last < first)
          return fail("a range that is empty");
      }
      set.add(first, last);
    }
    if (ignoreCase && !foldCase(set))
      return nullptr;
    lastLetter = 0;
    return makeNode(Node::Kind::Set, negative ? set.complement() : set);
  }

  StringRef pattern;
  PatternDialect dialect;
  size_t at = 0;
  /// The letter before, if it was a literal read without regard to case.
  uint32_t lastLetter = 0;
  std::string message;
  size_t errorAt = 0;
};

// ---------------------------------------------------------------------------
// Program
// ---------------------------------------------------------------------------

/// The steps of a backtracking matcher, as in Thompson's construction.
struct Instruction {
  enum class Op { Set, Look, Fork, Match };
  Op op;
  uint32_t set = 0;      ///< Set, Look: index of the set
  bool negative = false; ///< Look
  uint32_t next = 0;     ///< Set, Look; Fork: tried first
  uint32_t other = 0;    ///< Fork: tried second
};

/// Emits instructions from the end of the pattern to its start: every node is
/// compiled knowing what follows it.
class Compiler {
public:
  std::vector<Instruction> code;
  std::vector<CodePointSet> sets;
  uint32_t start = 0;

  /// False if the program grows too long.
  bool compile(const Node &root) {
    uint32_t match = emit({Instruction::Op::Match});
    start = compile(root, match);
    return code.size() <= maxInstructions;
  }

private:
  uint32_t emit(Instruction instruction) {
    code.push_back(instruction);
    return code.size() - 1;
  }

  uint32_t setIndex(const CodePointSet &set) {
    auto found = find(sets, set);
    if (found == sets.end())
      found = sets.insert(found, set);
    return found - sets.begin();
  }

  uint32_t fork(uint32_t first, uint32_t second) { return emit({Instruction::Op::Fork, 0, false, first, second}); }

  uint32_t compile(const Node &node, uint32_t next) {
    if (code.size() > maxInstructions)
      return next;
    switch (node.kind) {
    case Node::Kind::Set:
      return emit({Instruction::Op::Set, setIndex(node.set), false, next});
    case Node::Kind::LookAhead:
      return emit({Instruction::Op::Look, setIndex(node.set), node.negative, next});
    case Node::Kind::Concat:
      for (const NodePtr &child : reverse(node.children))
        next = compile(*child, next);
      return next;
    case Node::Kind::Alternate: {
      uint32_t entry = compile(*node.children.back(), next);
      for (const NodePtr &child : drop_begin(reverse(node.children)))
        entry = fork(compile(*child, next), entry);
      return entry;
    }
    case Node::Kind::Repeat:
      return repeat(node, next);
    }
    llvm_unreachable("kind of node");
  }

  uint32_t repeat(const Node &node, uint32_t next) {
    const Node &child = *node.children.front();
    auto choose = [&](uint32_t again, uint32_t leave) { return node.lazy ? fork(leave, again) : fork(again, leave); };
    uint32_t entry = next;
    if (node.most == unlimited) {
      // The loop's fork comes first, its target when the body is known.
      uint32_t loop = choose(next, next);
      uint32_t body = compile(child, loop);
      (node.lazy ? code[loop].other : code[loop].next) = body;
      entry = loop;
    } else {
      for (uint32_t i = node.least; i < node.most; ++i) {
        entry = choose(compile(child, entry), next);
        if (code.size() > maxInstructions)
          return entry;
      }
    }
    for (uint32_t i = 0; i < node.least; ++i) {
      entry = compile(child, entry);
      if (code.size() > maxInstructions)
        return entry;
    }
    return entry;
  }
};

// ---------------------------------------------------------------------------
// Automaton
// ---------------------------------------------------------------------------

class Determinizer {
public:
  explicit Determinizer(const Compiler &program) : code(program.code), sets(program.sets), start(program.start) {}

  /// False if there are too many classes or states.
  bool run(SplitAutomaton &result) {
    if (!partition(result))
      return false;
    stateOf({}); // dead
    stateOf({start});
    for (size_t state = 0; state < states.size(); ++state) {
      if (states.size() > maxStates)
        return false;
      for (uint32_t group = 0; group < result.classes; ++group) {
        const std::vector<uint32_t> from = states[state];
        result.transitions.push_back(step(from, group));
      }
    }
    result.states = states.size();
    return true;
  }

private:
  /// Groups the code points that no set tells apart; the end of the text is one
  /// more class, in no set.
  bool partition(SplitAutomaton &result) {
    std::vector<uint32_t> starts = {0};
    for (const CodePointSet &set : sets)
      for (CodePointSet::Range range : set.ranges()) {
        starts.push_back(range.first);
        starts.push_back(range.last + 1);
      }
    sort(starts);
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    std::map<std::vector<bool>, uint32_t> groups;
    result.classOf.resize(lastCodePoint + 1);
    for (size_t i = 0; i < starts.size() && starts[i] <= lastCodePoint; ++i) {
      std::vector<bool> member(sets.size());
      for (size_t s = 0; s < sets.size(); ++s)
        member[s] = sets[s].contains(starts[i]);
      auto [found, isNew] = groups.try_emplace(member, groups.size());
      if (isNew)
        memberships.push_back(member);
      if (groups.size() > 255)
        return false;
      uint32_t end = i + 1 < starts.size() ? starts[i + 1] : lastCodePoint + 1;
      std::fill(result.classOf.begin() + starts[i], result.classOf.begin() + std::min(end, lastCodePoint + 1),
                found->second);
    }
    memberships.emplace_back(sets.size(), false);
    endClass = memberships.size() - 1;
    result.classes = memberships.size();
    return true;
  }

  uint16_t stateOf(std::vector<uint32_t> positions) {
    auto [found, isNew] = numbers.try_emplace(positions, states.size());
    if (isNew)
      states.push_back(std::move(positions));
    return found->second;
  }

  /// Follows forks and look-aheads from `positions` in order of priority, given
  /// that a code point of `group` comes next.
  uint16_t step(const std::vector<uint32_t> &positions, uint32_t group) {
    const std::vector<bool> &member = memberships[group];
    std::vector<bool> seen(code.size()), taken(code.size());
    std::vector<uint32_t> next;
    std::vector<uint32_t> stack(positions.rbegin(), positions.rend());
    bool accept = false;
    while (!stack.empty() && !accept) {
      uint32_t at = stack.back();
      stack.pop_back();
      if (seen[at])
        continue;
      seen[at] = true;
      const Instruction &instruction = code[at];
      switch (instruction.op) {
      case Instruction::Op::Match:
        accept = true; // what comes after it has lower priority
        break;
      case Instruction::Op::Fork:
        stack.push_back(instruction.other);
        stack.push_back(instruction.next);
        break;
      case Instruction::Op::Look:
        if (member[instruction.set] != instruction.negative)
          stack.push_back(instruction.next);
        break;
      case Instruction::Op::Set:
        if (group != endClass && member[instruction.set] && !taken[instruction.next]) {
          taken[instruction.next] = true;
          next.push_back(instruction.next);
        }
        break;
      }
    }
    return stateOf(std::move(next)) | (accept ? INGOT_RT_TOK_ACCEPT : 0);
  }

  const std::vector<Instruction> &code;
  const std::vector<CodePointSet> &sets;
  uint32_t start;
  uint32_t endClass = 0;
  std::vector<std::vector<bool>> memberships; ///< [class][set]
  std::vector<std::vector<uint32_t>> states;
  std::map<std::vector<uint32_t>, uint16_t> numbers;
};

Expected<SplitAutomaton> compileTree(const Node &root) {
  Compiler program;
  SplitAutomaton result;
  if (!program.compile(root) || !Determinizer(program).run(result))
    return createStringError(inconvertibleErrorCode(), "pattern: too large to compile");
  return result;
}

} // namespace

Expected<SplitAutomaton> ingot::compilePattern(StringRef pattern, PatternDialect dialect) {
  Expected<NodePtr> tree = Parser(pattern, dialect).parse();
  if (!tree)
    return tree.takeError();
  return compileTree(**tree);
}

Expected<SplitAutomaton> ingot::compileLiteral(StringRef text) {
  NodePtr tree = makeNode(Node::Kind::Concat);
  SmallVector<UTF32> codePoints(text.size());
  const auto *from = reinterpret_cast<const UTF8 *>(text.data());
  UTF32 *to = codePoints.data();
  if (ConvertUTF8toUTF32(&from, from + text.size(), &to, to + text.size(), strictConversion) != conversionOK)
    return createStringError(inconvertibleErrorCode(), "pattern: invalid UTF-8");
  for (UTF32 c : ArrayRef(codePoints.data(), to))
    tree->children.push_back(makeNode(Node::Kind::Set, CodePointSet{{c, c}}));
  return compileTree(*tree);
}

/// The end of the match at `at`; nothing if there is none.
static std::optional<size_t> matchAt(const SplitAutomaton &automaton, ArrayRef<uint32_t> text, size_t at) {
  std::optional<size_t> found;
  uint32_t state = INGOT_RT_TOK_START;
  for (;; ++at) {
    const uint32_t group = at < text.size() ? automaton.classOf[text[at]] : automaton.classes - 1;
    const uint16_t next = automaton.transitions[state * automaton.classes + group];
    if (next & INGOT_RT_TOK_ACCEPT)
      found = at;
    state = next & ~INGOT_RT_TOK_ACCEPT;
    if (state == INGOT_RT_TOK_DEAD || at >= text.size())
      return found;
  }
}

bool ingot::matchesEmpty(const SplitAutomaton &automaton) {
  for (uint32_t group = 0; group < automaton.classes; ++group)
    if (automaton.transitions[INGOT_RT_TOK_START * automaton.classes + group] & INGOT_RT_TOK_ACCEPT)
      return true;
  return false;
}

std::vector<std::pair<size_t, size_t>> ingot::findMatches(const SplitAutomaton &automaton, ArrayRef<uint32_t> text) {
  std::vector<std::pair<size_t, size_t>> result;
  for (size_t at = 0; at < text.size();) {
    std::optional<size_t> stop = matchAt(automaton, text, at);
    if (stop && *stop > at)
      result.push_back({at, *stop});
    at = stop && *stop > at ? *stop : at + 1;
  }
  return result;
}

SplitAutomaton ingot::compileSet(const CodePointSet &set) {
  return cantFail(compileTree(*makeNode(Node::Kind::Set, set)));
}
