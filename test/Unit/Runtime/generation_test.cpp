// Stop strings against a search of the whole text, however it is cut into pieces; log-probabilities against their
// definition.
#include "generation/log_probability.h"
#include "generation/text_stream.h"

#include <chrono>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace ingot::rt;

namespace {

/// What must be shown of a text, and whether it was ended: the definition, by looking at every end in turn.
std::pair<std::string, bool> searched(const std::vector<std::string> &stops, const std::string &text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string &stop : stops)
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0)
        longest = std::max(longest, stop.size());
    if (longest != 0)
      return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

/// Gives `text` in pieces, one ending before each byte i > 0 with bit i - 1 of `cuts` set, and holds every promise of
/// the matcher to account after each piece.
void check(const std::vector<std::string> &stops, const std::string &text, uint64_t cuts) {
  auto [expected, ended] = searched(stops, text);
  StopMatcher matcher(stops);
  std::string shown, seen;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && !(cuts >> ((end - 1) % 64) & 1))
      ++end;
    shown += matcher.push(text.substr(i, end - i));
    seen += text.substr(i, end - i);
    i = end;
    ASSERT_EQ(shown, expected.substr(0, shown.size())) << "a stop leaked";
    auto [soFar, stopped] = searched(stops, seen);
    ASSERT_EQ(matcher.stopped(), stopped);
    if (stopped) {
      ASSERT_EQ(shown, soFar);
      continue;
    }
    // What waits is the longest end that begins a stop string, no more.
    size_t waits = 0;
    for (const std::string &stop : stops)
      for (size_t length = 1; length < stop.size() && length <= seen.size(); ++length)
        if (seen.compare(seen.size() - length, length, stop, 0, length) == 0)
          waits = std::max(waits, length);
    ASSERT_EQ(shown.size() + waits, seen.size()) << "a near miss was kept";
  }
  shown += matcher.finish();
  ASSERT_EQ(shown, expected);
  ASSERT_EQ(matcher.stopped(), ended);
  if (ended)
    ASSERT_EQ(matcher.push(text), "") << "after a stop nothing comes";
}

std::vector<std::string> allTexts(size_t most, const std::string &alphabet) {
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i)
    if (texts[i].size() < most)
      for (char c : alphabet)
        texts.push_back(texts[i] + c);
  return texts;
}

/// Every text of up to 6 letters of {a, b}, every two stop strings of up to 4, every way of cutting the text.
TEST(StopMatcher, EveryCaseOverTwoLetters) {
  std::vector<std::string> texts = allTexts(6, "ab"), stops = allTexts(4, "ab");
  for (size_t i = 1; i < stops.size(); ++i)
    for (size_t j = i; j < stops.size(); ++j)
      for (const std::string &text : texts)
        for (uint64_t cuts = 0; cuts < uint64_t(1) << (text.empty() ? 0 : text.size() - 1); ++cuts) {
          SCOPED_TRACE(testing::Message() << stops[i] << "|" << stops[j] << " in " << text << " cut " << cuts);
          ASSERT_NO_FATAL_FAILURE(check({stops[i], stops[j]}, text, cuts));
        }
}

TEST(StopMatcher, RandomSetsOfStops) {
  std::mt19937_64 random(7);
  auto draw = [&](size_t most) {
    std::string text;
    for (size_t length = random() % (most + 1); text.size() < length;)
      text += "abc"[random() % 3];
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops(1 + random() % 5);
    for (std::string &stop : stops)
      stop = draw(6) + "a";
    std::string text = draw(60);
    ASSERT_NO_FATAL_FAILURE(check(stops, text, random())) << text;
  }
}

TEST(StopMatcher, KnownCases) {
  auto shown = [](const std::vector<std::string> &stops, std::initializer_list<const char *> pieces) {
    StopMatcher matcher(stops);
    std::string text;
    for (const char *piece : pieces)
      text += matcher.push(piece) + "|";
    return text + matcher.finish() + (matcher.stopped() ? "." : "");
  };
  EXPECT_EQ(shown({"END"}, {"some text EN", "END more"}), "some text |EN|.") << "spans pieces, after a near miss";
  EXPECT_EQ(shown({"END"}, {"some text EN"}), "some text |EN") << "an unfinished one is text";
  EXPECT_EQ(shown({"a"}, {"xxaxx"}), "xx|.") << "inside one piece";
  EXPECT_EQ(shown({"aab"}, {"aa", "ab"}), "|a|.") << "overlaps itself";
  EXPECT_EQ(shown({"abcd", "bc"}, {"abcd"}), "a|.") << "the first that is complete ends the text";
  EXPECT_EQ(shown({"d", "cd", "bcd"}, {"abcd"}), "a|.") << "of equal ends the longest";
  EXPECT_EQ(shown({}, {"text"}), "text|");
  EXPECT_EQ(shown({""}, {"text"}), "text|");
  // Characters stay whole: the two begin with the same byte.
  EXPECT_EQ(shown({"\xc3\xa9"}, {"a\xc3\xa8", "\xc3\xa9"}), "a\xc3\xa8||.");
}

/// The worst texts for a search that goes back: twenty million bytes must not take minutes.
TEST(StopMatcher, IsLinear) {
  std::string stop(5000, 'a');
  StopMatcher matcher({stop + "b", stop.substr(1) + "c", std::string(3000, 'a') + "ba"});
  std::string piece(20000, 'a');
  auto start = std::chrono::steady_clock::now();
  size_t shown = 0;
  for (int i = 0; i < 1000; ++i)
    shown += matcher.push(piece).size();
  EXPECT_EQ(shown, size_t(20000) * 1000 - 5000);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 20);
}

TEST(LogProbability, IsTheLogSoftmax) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 30);
  std::vector<float> row(1001);
  for (float &logit : row)
    logit = normal(random);
  row[17] = row[400] = 150; // ties go to the lowest id
  row[5] = -std::numeric_limits<float>::infinity();
  long double sum = 0;
  for (float logit : row)
    sum += std::exp(static_cast<long double>(logit));
  EXPECT_NEAR(logSumExp(row.data(), row.size()), static_cast<double>(std::log(sum)), 1e-12);
  std::vector<TokenScore> best = likeliestTokens(row.data(), row.size(), 3);
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].token, 17);
  EXPECT_EQ(best[1].token, 400);
  EXPECT_NEAR(best[0].logProbability, 150 - static_cast<double>(std::log(sum)), 1e-12);
  EXPECT_EQ(likeliestTokens(row.data(), 2, 9).size(), 2u);
  const float apart[] = {3e38f, -3e38f};
  EXPECT_EQ(logSumExp(apart, 2), static_cast<double>(3e38f)) << "nothing overflows";
}

} // namespace
