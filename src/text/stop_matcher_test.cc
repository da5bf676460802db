#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace paceline::text {
namespace {

struct Outcome {
  std::string text;
  bool stopped = false;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << '"' << outcome.text << "\" stopped=" << outcome.stopped;
}

StopMatcher matcher(std::vector<std::string> stop_strings) {
  return StopMatcher::create(std::move(stop_strings)).value();
}

Outcome run(StopMatcher stops, const std::vector<std::string>& pushes) {
  Outcome outcome;
  for (const std::string& text : pushes) {
    const StopMatcher::Step step = stops.push(text);
    outcome.text += step.text;
    outcome.stopped = step.stopped;
  }
  if (!outcome.stopped) outcome.text += stops.finish();
  return outcome;
}

TEST(StopMatcherTest, WithoutStopStringsTextPassesAtOnce) {
  StopMatcher stops = matcher({});
  EXPECT_EQ(stops.push("some text").text, "some text");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopMatcherTest, AStopStringInOnePush) {
  EXPECT_EQ(run(matcher({"END"}), {"before END after"}), (Outcome{"before ", true}));
}

TEST(StopMatcherTest, AStopStringOverSeveralPushesIsNeverShown) {
  StopMatcher stops = matcher({"</tool>"});
  EXPECT_EQ(stops.push("a <").text, "a ");
  EXPECT_EQ(stops.push("/to").text, "");
  EXPECT_EQ(stops.push("ol").text, "");
  const auto step = stops.push("> b");
  EXPECT_EQ(step.text, "");
  EXPECT_TRUE(step.stopped);
}

TEST(StopMatcherTest, HeldTextIsShownOnceItCannotBecomeAStopString) {
  StopMatcher stops = matcher({"stop!"});
  EXPECT_EQ(stops.push("sto").text, "");
  EXPECT_EQ(stops.push("ve st").text, "stove ");
  EXPECT_EQ(stops.push("one").text, "stone");
  EXPECT_EQ(stops.push(" sto").text, " ");
  EXPECT_EQ(stops.finish(), "sto");
}

TEST(StopMatcherTest, APrefixThatOverlapsItself) {
  EXPECT_EQ(run(matcher({"aab"}), {"a", "a", "a", "b", "c"}), (Outcome{"a", true}));
  EXPECT_EQ(run(matcher({"\n\nQ:"}), {"x\n", "\n", "\n", "Q", ":"}), (Outcome{"x\n", true}));
  EXPECT_EQ(run(matcher({"abab"}), {"aba", "ab", "ac"}), (Outcome{"abaabac", false}));
}

TEST(StopMatcherTest, OfSeveralTheOneThatIsCompleteFirst) {
  EXPECT_EQ(run(matcher({"xabc", "ab"}), {"1xabc"}), (Outcome{"1x", true}));
  EXPECT_EQ(run(matcher({"xabc", "ab"}), {"1x", "a", "bc"}), (Outcome{"1x", true}));
  EXPECT_EQ(run(matcher({"bc", "abc"}), {"1abc"}), (Outcome{"1", true}));
  EXPECT_EQ(run(matcher({"two", "one"}), {"three one two"}), (Outcome{"three ", true}));
}

TEST(StopMatcherTest, NothingComesAfterAStop) {
  StopMatcher stops = matcher({"."});
  EXPECT_TRUE(stops.push("a.b").stopped);
  const auto step = stops.push("more");
  EXPECT_TRUE(step.stopped);
  EXPECT_EQ(step.text, "");
  EXPECT_EQ(stops.finish(), "");
  EXPECT_EQ(stops.push("anew").text, "anew");
}

TEST(StopMatcherTest, CharactersOfSeveralBytesStayWhole) {
  StopMatcher stops = matcher({"é!"});
  EXPECT_EQ(stops.push("aè").text, "aè");
  EXPECT_EQ(stops.push("é").text, "");
  EXPECT_EQ(stops.push("?").text, "é?");
}

TEST(StopMatcherTest, RefusesWhatWouldAlwaysOrNeverStop) {
  EXPECT_EQ(StopMatcher::create({"a", ""}).error().message(),
            "stop string 1 has 0 bytes, expected 1 to 1024");
  EXPECT_EQ(StopMatcher::create({std::string(1025, 'x')}).error().code(),
            ErrorCode::kInvalidArgument);
  EXPECT_FALSE(StopMatcher::create(std::vector<std::string>(65, "x")).has_value());
}

/// Character by character, the plainest way.
Outcome reference(const std::vector<std::string>& stop_strings, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stop_strings) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopMatcherTest, TheOutcomeDoesNotDependOnHowTheStreamIsDivided) {
  std::mt19937 random(20240601);
  const auto word = [&random](std::size_t max) {
    std::string result(1 + random() % max, 'a');
    for (char& letter : result) letter = static_cast<char>('a' + random() % 3);
    return result;
  };
  int stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> stop_strings = {word(5), word(6), word(7)};
    std::vector<std::string> pushes;
    std::string text;
    for (int i = 0; i < 6; ++i) {
      pushes.push_back(word(4));
      text += pushes.back();
    }
    const Outcome expected = reference(stop_strings, text);
    stopped += expected.stopped ? 1 : 0;
    ASSERT_EQ(run(matcher(stop_strings), pushes), expected)
        << text << " with " << testing::PrintToString(stop_strings);
  }
  EXPECT_GT(stopped, 200);
  EXPECT_LT(stopped, 1990);
}

}  // namespace
}  // namespace paceline::text
