#include "obs/activity.h"

#include <gtest/gtest.h>

namespace paceline::obs {
namespace {

using std::chrono::milliseconds;

TEST(ActivityTest, SpreadsAreOfRanks) {
  std::vector<Duration> times;
  EXPECT_FALSE(spread_of(times));
  times = {milliseconds(7)};
  EXPECT_EQ(spread_of(times)->median, milliseconds(7));
  EXPECT_EQ(spread_of(times)->high, milliseconds(7));
  times.clear();
  for (int i = 100; i > 0; --i) times.push_back(milliseconds(i));
  EXPECT_EQ(spread_of(times)->median, milliseconds(50));
  EXPECT_EQ(spread_of(times)->high, milliseconds(95));
}

TEST(ActivityTest, AnIntervalHasWhatCameSinceTheLast) {
  Activity activity;
  activity.add_prompt_tokens(30);
  activity.add_generation_tokens(5);
  activity.add_generation_tokens(2);
  activity.observe_first_token(milliseconds(80));
  activity.observe_next_tokens(milliseconds(10), 5);
  activity.observe_next_tokens(milliseconds(40), 1);
  const Activity::Interval first = activity.take();
  EXPECT_EQ(first.prompt_tokens, 30U);
  EXPECT_EQ(first.generation_tokens, 7U);
  EXPECT_EQ(first.first_token->median, milliseconds(80));
  EXPECT_EQ(first.next_token->median, milliseconds(10));
  EXPECT_EQ(first.next_token->high, milliseconds(40));
  const Activity::Interval second = activity.take();
  EXPECT_EQ(second.prompt_tokens, 0U);
  EXPECT_EQ(second.generation_tokens, 0U);
  EXPECT_FALSE(second.first_token);
  EXPECT_FALSE(second.next_token);
}

TEST(ActivityTest, KeepsNoMoreTimesThanItSays) {
  Activity activity;
  activity.observe_next_tokens(milliseconds(1), Activity::kMostTimes);
  activity.observe_next_tokens(milliseconds(100), 100 * Activity::kMostTimes);
  for (std::size_t i = 0; i <= Activity::kMostTimes; ++i) {
    activity.observe_first_token(milliseconds(i == Activity::kMostTimes ? 100 : 1));
  }
  const Activity::Interval interval = activity.take();
  EXPECT_EQ(interval.next_token->high, milliseconds(1));
  EXPECT_EQ(interval.first_token->high, milliseconds(1));
}

}  // namespace
}  // namespace paceline::obs
