// Split patterns: what the automata match, and what is refused by name.
#include "compiler/Text/SplitPattern.h"
#include "ingot_rt/image_tokenizer.h"
#include "gtest/gtest.h"

using namespace ingot;

namespace {

/// Where the match at the start of `text` ends; -1 if there is none. Code points stand for themselves.
int64_t matchLength(const SplitAutomaton &automaton, std::u32string text) {
  int64_t found = -1;
  uint32_t state = INGOT_RT_TOK_START;
  for (size_t at = 0; state != INGOT_RT_TOK_DEAD; ++at) {
    uint32_t group = at < text.size() ? automaton.classOf[text[at]] : automaton.classes - 1;
    uint16_t next = automaton.transitions.at(state * automaton.classes + group);
    if (next & INGOT_RT_TOK_ACCEPT)
      found = at;
    state = next & ~INGOT_RT_TOK_ACCEPT;
  }
  return found;
}

int64_t match(llvm::StringRef pattern, std::u32string text) {
  auto automaton = compilePattern(pattern);
  if (!automaton) {
    ADD_FAILURE() << toString(automaton.takeError());
    return -2;
  }
  return matchLength(*automaton, text);
}

std::string error(llvm::StringRef pattern) {
  auto automaton = compilePattern(pattern);
  if (automaton)
    return "no error";
  return toString(automaton.takeError());
}

TEST(SplitPattern, firstAlternativeWins) {
  EXPECT_EQ(match("a|ab", U"ab"), 1);
  EXPECT_EQ(match("ab|a", U"ab"), 2);
  EXPECT_EQ(match("ab|a", U"ac"), 1);
  EXPECT_EQ(match("(?:a|ab)(?:c|bcd)", U"abcd"), 4); // backtracks into the first alternative only
  EXPECT_EQ(match("(a|b)", U"c"), -1);
}

TEST(SplitPattern, repetitions) {
  EXPECT_EQ(match("a*", U"aaab"), 3);
  EXPECT_EQ(match("a*?b|a", U"aab"), 3);
  EXPECT_EQ(match("a+?", U"aaa"), 1);
  EXPECT_EQ(match("a??b?", U"ab"), 0);
  EXPECT_EQ(match("a{2}", U"aaa"), 2);
  EXPECT_EQ(match("a{2,}", U"aaaa"), 4);
  EXPECT_EQ(match("a{,2}", U"aaaa"), 2);
  EXPECT_EQ(match("a{1,3}", U"aaaa"), 3);
  EXPECT_EQ(match("a{1,3}", U"b"), -1);
  EXPECT_EQ(match("a{x}", U"a{x}"), 4); // not an interval
  EXPECT_EQ(match("(?:ab)+", U"ababa"), 4);
}

TEST(SplitPattern, looksAheadOneCharacter) {
  EXPECT_EQ(match(R"(\s+(?!\S))", U"   x"), 2);
  EXPECT_EQ(match(R"(\s+(?!\S))", U"   "), 3); // the end is no \S
  EXPECT_EQ(match(R"(\s+(?!\S)|\s+)", U" x"), 1);
  EXPECT_EQ(match(R"(a(?=\d))", U"a1"), 1);
  EXPECT_EQ(match(R"(a(?=\d))", U"ab"), -1);
  EXPECT_EQ(match(R"(a(?=\d))", U"a"), -1); // and no \d
  EXPECT_EQ(match(R"((?!a)\p{L})", U"b"), 1);
  EXPECT_EQ(match(R"((?!a)\p{L})", U"a"), -1);
}

TEST(SplitPattern, endOfLine) {
  EXPECT_EQ(match(R"(\s+$)", U"  "), 2);
  EXPECT_EQ(match(R"(\s+$)", U"  x"), -1);
  EXPECT_EQ(match(R"(a$)", U"a\nb"), 1); // of any line
  EXPECT_EQ(match(R"(a$|.)", U"ab"), 1);
}

TEST(SplitPattern, classes) {
  EXPECT_EQ(match(R"([^\r\n\p{L}\p{N}]?\p{L}+)", U".été1"), 4);
  EXPECT_EQ(match(R"([a-c\-x]+)", U"ab-xd"), 4);
  EXPECT_EQ(match("[a-]+", U"a-b"), 2);
  EXPECT_EQ(match(R"(\p{Lu}\P{Lu}\p{^Lu})", U"Aa1"), 3);
  EXPECT_EQ(match(R"([\u00e9\x{1f642}\x41]+)", U"é🙂AB"), 3);
  EXPECT_EQ(match(R"(\s)", U"\u3000"), 1);
  EXPECT_EQ(match(R"(\s)", U"\u200b"), -1); // ZERO WIDTH SPACE is no white space
  EXPECT_EQ(match(".", U"\n"), -1);
  EXPECT_EQ(match(R"(\p{N}\d)", U"½1"), 2);
  EXPECT_EQ(match(R"(\d)", U"½"), -1);
}

TEST(SplitPattern, withoutRegardToCase) {
  EXPECT_EQ(match("(?i:'s|'ll)x", U"'SX"), -1); // the x is outside
  EXPECT_EQ(match("(?i:'s|'ll)", U"'Ll"), 3);
  EXPECT_EQ(match("(?i:'s)", U"'\u017f"), 2); // long s
  EXPECT_EQ(match("(?i:k)", U"\u212a"), 1);   // Kelvin sign
  EXPECT_EQ(match("(?i:[a-c])", U"B"), 1);
}

TEST(SplitPattern, literalsAndSets) {
  auto literal = compileLiteral("a.*é");
  ASSERT_TRUE(!!literal);
  EXPECT_EQ(matchLength(*literal, U"a.*é"), 4);
  EXPECT_EQ(matchLength(*literal, U"abbé"), -1);
  EXPECT_EQ(matchLength(compileSet({{'0', '9'}}), U"42"), 1);
}

/// Each construct that has another meaning or none here must be named, not matched in some way.
TEST(SplitPattern, refusesByName) {
  const std::pair<const char *, const char *> cases[] = {
      {"^a", "at byte 0: the anchor '^' is not supported yet"},
      {"a++", "at byte 2: a possessive quantifier is not supported yet"},
      {"a{2}?", "'?' after '{...}' is not supported yet"},
      {"a*{2}x**", "a quantifier of a quantifier"},
      {"(?<=a)b", "at byte 0: the group '(?<=a...' is not supported yet"},
      {"(?>a)", "the group '(?>a...' is not supported yet"},
      {"(?i)a", "the group '(?i...' is not supported yet"},
      {"(?!ab)c", "looking ahead for more than one character is not supported yet"},
      {"(a*)*", "repeating what may be empty is not supported yet"},
      {R"(\bword)", "'\\b' is not supported yet"},
      {R"((a)\1)", "'\\1' is not supported yet"},
      {R"(\xe9)", "'\\xe9' (a byte) is not supported yet"},
      {R"(\p{Han})", "the property 'Han' is not supported yet"},
      {"[a[b]]", "a class inside a class is not supported yet"},
      {"[[:alpha:]]", "a class inside a class is not supported yet"},
      {R"([a&&b])", "'&&' in a class is not supported yet"},
      {"(?i:é)", "a character outside ASCII without regard to case is not supported yet"},
      {"(?i:ss)", "'ss' without regard to case is not supported yet"},
      {"*a", "at byte 0: nothing for '*' to repeat"},
      {"a|*", "nothing for '*' to repeat"},
      {"(a", "at byte 2: missing ')'"},
      {"a)", "at byte 1: unmatched ')'"},
      {"[a", "missing ']'"},
      {"[z-a]", "a range that is empty"},
      {"a\\", "the pattern ends after '\\'"},
      {"a{3,2}", "the interval '{3,2}' is empty"},
      {"a{99999}", "the interval '{99999}' is too large"},
      {"(?:(?:a{100}){100}){100}", "too large to compile"},
      {R"(\p{L)", "missing '}'"},
      {"\xff", "invalid UTF-8"},
  };
  for (auto [pattern, message] : cases) {
    std::string actual = error(pattern);
    EXPECT_NE(actual.find(message), std::string::npos) << pattern << ": " << actual;
  }
  EXPECT_NE(error(std::string(200, '(')).find("nested more than 100 deep"), std::string::npos);
}

} // namespace
