// For tests of the generator: one over a fake chain.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/answer_waiter.h"
#include "coordinator/batch_generator.h"
#include "coordinator/fake_chain_testing.h"
#include "text/test_vocabulary.h"

namespace paceline::coordinator {

using Ids = std::vector<std::int64_t>;

inline constexpr std::int64_t kEnd = 2;
inline constexpr std::uint32_t kBlocks = 32;
inline constexpr std::uint32_t kVocabulary = 50000;

class BatchGeneratorTest : public testing::Test {
 protected:
  static BatchOptions options() {
    BatchOptions options;
    options.end_tokens = {kEnd};
    options.scheduler.context_tokens = 64;
    options.scheduler.kv_blocks = kBlocks;
    options.scheduler.block_tokens = FakeChain::kBlockTokens;
    options.scheduler.max_scored_rows = 4;
    options.vocabulary_size = kVocabulary;
    options.speculation = Speculation::kAlways;
    options.mean_width = FakeChain::kMeanWidth;
    return options;
  }
  BatchGenerator& generator() {
    if (!generator_) {
      generator_ = std::make_unique<BatchGenerator>(chain_, 1, &tokenizer_, clock_, options());
    }
    return *generator_;
  }
  Ids ids(const std::string& text) const { return tokenizer_.encode(text, false).value(); }
  /// After a prompt of `prompt_tokens` the model says `text`, then its end token.
  void script(const std::string& text, std::size_t prompt_tokens) {
    auto answer = ids(text);
    answer.push_back(kEnd);
    chain_.model = [answer, prompt_tokens](const Ids& tokens) {
      const std::size_t at = tokens.size() - prompt_tokens;
      return at < answer.size() ? answer[at] : kEnd;
    };
  }
  static GenerationRequest request(Ids prompt) {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = 50;
    request.sampling.logprobs = 0;
    return request;
  }
  Result<Generation> generate(const GenerationRequest& request) {
    return coordinator::generate(
        generator(), request, [this](std::string_view piece) { shown_ += piece; }, cancelled_);
  }
  void expect_refused(const GenerationRequest& request, const char* message) {
    const auto refused = generate(request);
    ASSERT_FALSE(refused) << message;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), testing::HasSubstr(message));
    EXPECT_TRUE(chain_.steps.empty()) << "refused before any work";
  }
  Ids alone(Ids tokens, std::uint32_t count) const {
    Ids answer;
    for (std::uint32_t i = 0; i < count; ++i) {
      answer.push_back(chain_.model(tokens));
      tokens.push_back(answer.back());
      if (answer.back() == kEnd) break;
    }
    return answer;
  }

  const text::Tokenizer tokenizer_ = text::test_tokenizer("bpe");
  SteadyClock clock_;
  FakeChain chain_;
  std::atomic<bool> cancelled_ = false;
  std::string shown_;
  std::unique_ptr<BatchGenerator> generator_;
};

}  // namespace paceline::coordinator
