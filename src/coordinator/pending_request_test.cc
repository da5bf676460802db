#include "coordinator/pending_request.h"

#include <gmock/gmock.h>

#include "text/test_vocabulary.h"

namespace paceline::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

class PendingRequestTest : public testing::Test {
 protected:
  PendingRequest make(GenerationRequest asked) {
    auto request = PendingRequest::create(std::move(asked), nullptr, &tokenizer_, at(100));
    EXPECT_TRUE(request);
    return *std::move(request);
  }
  static TimePoint at(int ms) { return TimePoint(milliseconds(ms)); }
  std::vector<wire::Sample> samples(const std::string& text) const {
    std::vector<wire::Sample> all;
    const auto ids = tokenizer_.encode(text, false).value();
    for (const std::int64_t id : ids) {
      wire::Sample sample;
      sample.token = id;
      sample.logprob = -1;
      sample.top = {{id, -1}};
      all.push_back(sample);
    }
    return all;
  }

  const text::Tokenizer tokenizer_ = text::test_tokenizer("bpe");
};

TEST_F(PendingRequestTest, AnAnswerGrowsAndIsTimed) {
  GenerationRequest asked;
  asked.prompt = {1, 2, 3};
  PendingRequest request = make(asked);
  request.note_begin(0, 2, at(120));
  EXPECT_EQ(request.add(0, samples("Hi "), false, at(150))->text, "Hi ");
  EXPECT_EQ(request.add(0, samples("you"), false, at(350))->text, "you");
  request.note_begin(0, 3, at(400));  // preempted, begun again
  const auto finished = request.finish(0, FinishReason::kLength);
  EXPECT_EQ(finished.generation.text, "Hi you");
  EXPECT_EQ(finished.generation.prompt_tokens, 3U);
  EXPECT_EQ(finished.generation.reused_tokens, 2U);
  EXPECT_EQ(finished.generation.queue_time, milliseconds(20));
  EXPECT_EQ(finished.generation.time_to_first_token, milliseconds(50));
  EXPECT_EQ(finished.generation.decode_time, milliseconds(200));
  EXPECT_TRUE(finished.generation.logprobs.empty()) << "not asked for";
  EXPECT_TRUE(request.is_over());
}

TEST_F(PendingRequestTest, AMeanIsNoAnswer) {
  GenerationRequest asked;
  asked.prompt = {1, 2, 3};
  asked.want_mean = true;
  PendingRequest request = make(asked);
  auto all = samples("H");
  all.resize(1);
  all[0].mean = {0.5F, -1.0F};
  const auto piece = request.add(0, all, false, at(150));
  ASSERT_TRUE(piece);
  EXPECT_TRUE(piece->taken.empty());
  EXPECT_EQ(piece->text, "");
  const auto finished = request.finish(0, FinishReason::kStop);
  EXPECT_EQ(finished.generation.mean, all[0].mean);
  EXPECT_TRUE(finished.generation.tokens.empty());
  EXPECT_EQ(finished.generation.time_to_first_token, milliseconds(50));
  EXPECT_EQ(finished.rest, "");
}

TEST_F(PendingRequestTest, SpecialTokensAreShownWhereAskedFor) {
  GenerationRequest asked;
  const auto all = samples("<|im_start|>a");
  EXPECT_EQ(make(asked).add(0, all, false, at(1))->text, "a");
  asked.shows_special_tokens = true;
  EXPECT_EQ(make(asked).add(0, all, false, at(1))->text, "<|im_start|>a");
}

TEST_F(PendingRequestTest, NothingAfterAStopStringCounts) {
  GenerationRequest asked;
  asked.stop = {"you"};
  PendingRequest request = make(asked);
  const auto all = samples("Hi you there");
  const auto piece = request.add(0, all, false, at(1));
  ASSERT_TRUE(piece);
  EXPECT_TRUE(piece->is_stopped);
  EXPECT_EQ(piece->text, "Hi ");
  EXPECT_LT(piece->taken.size(), all.size());
  const auto finished = request.finish(0, FinishReason::kStop);
  EXPECT_EQ(finished.rest, "");
  EXPECT_EQ(finished.generation.tokens.size(), piece->taken.size());
}

TEST_F(PendingRequestTest, WhatIsHeldBackComesAtTheEnd) {
  GenerationRequest asked;
  asked.stop = {"your"};
  PendingRequest request = make(asked);
  EXPECT_EQ(request.add(0, samples("Hi you"), false, at(1))->text, "Hi ");
  const auto finished = request.finish(0, FinishReason::kCancelled);
  EXPECT_EQ(finished.rest, "you");
  EXPECT_EQ(finished.generation.text, "Hi you");
}

TEST_F(PendingRequestTest, AnEndTokenHasNoText) {
  PendingRequest request = make({});
  const auto piece = request.add(0, samples("ab"), true, at(1));
  EXPECT_EQ(piece->taken.size(), samples("ab").size());
  EXPECT_NE(piece->text, "ab");
}

TEST_F(PendingRequestTest, ScoresStandInEachAnswer) {
  GenerationRequest asked;
  asked.prompt = {1, 2, 3};
  asked.choices = 2;
  asked.want_prompt_logprobs = true;
  asked.sampling.logprobs = 1;
  PendingRequest request = make(asked);
  auto all = samples("ab");
  all[0].logprob = -2;
  request.add_score(1, all[0]);
  request.add_score(2, all[1]);
  request.add_score(0, all[0]);  // nobody knows what the first token follows
  request.add_score(3, all[0]);
  EXPECT_THAT(request.open_choices(), ElementsAre(0, 1));
  for (const std::uint32_t choice : {0U, 1U}) {
    const auto finished = request.finish(choice, FinishReason::kLength);
    EXPECT_THAT(finished.generation.prompt_logprobs, ElementsAre(-2, -1));
    EXPECT_EQ(finished.generation.prompt_top_logprobs.size(), 2U);
  }
}

}  // namespace
}  // namespace paceline::coordinator
