// Answers that must be of a grammar, through real workers with an engine of integers: the same
// alone, batched, with drafts, over several stages, and begun again after a preemption.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "coordinator/answer_waiter.h"
#include "coordinator/chain_testing.h"
#include "text/test_vocabulary.h"

namespace paceline::coordinator {
namespace {

using worker::kFakeBlockTokens;
using worker::kFakeLayers;

constexpr std::int64_t kEnd = 2;
constexpr const char* kCodes = "([A-Z]{2,4}[0-9]{1,3},){3,6}END";
constexpr const char* kSums = "start: N (\" + \" N)~2..5\nN: /[1-9][0-9]{0,2}/";

/// The engine has the vocabulary's first 97 tokens: digits, capitals, brackets, no braces.
std::vector<std::optional<GrammarSpec>> forms() {
  return {
      std::nullopt, GrammarSpec{GrammarKind::kRegex, kCodes},
      GrammarSpec{GrammarKind::kLark, kSums},
      GrammarSpec{GrammarKind::kJsonSchema,
                  R"({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99},
                          "minItems": 4, "maxItems": 9})"},
      GrammarSpec{GrammarKind::kJsonSchema,
                  R"({"type": "array", "items": {"enum": ["RED", "BLUE", "GREEN", 1]},
                          "minItems": 3, "maxItems": 8})"}};
}

bool is_of(std::size_t form, const std::string& text) {
  if (form == 0) return true;
  if (form == 1) return std::regex_match(text, std::regex(kCodes));
  if (form == 2) {
    return std::regex_match(text, std::regex(R"([1-9][0-9]{0,2}( \+ [1-9][0-9]{0,2}){2,5})"));
  }
  const auto json = nlohmann::json::parse(text, nullptr, false);
  return json.is_array() && json.size() >= 3 && json.size() <= 9;
}

struct Asked {
  GenerationRequest request;
  std::size_t form = 0;
};

std::vector<Asked> random_requests(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto up_to = [&random](std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(0, most)(random);
  };
  std::vector<Asked> all(12);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].form = i % forms().size();
    GenerationRequest& request = all[i].request;
    request.prompt.resize(3 + up_to(9));
    for (auto& token : request.prompt) token = 40 + up_to(50);
    request.max_tokens = 30 + up_to(20);
    request.choices = 1 + up_to(2);
    request.sampling.temperature = up_to(3) == 0 ? 0 : 1;
    request.sampling.seed = random();
    if (up_to(3) == 0) request.sampling.logprobs = up_to(3);
    if (up_to(3) == 0) request.sampling.repetition_penalty = 1.3;
    if (up_to(3) == 0) request.stop = {std::to_string(up_to(9))};
    request.sampling.grammar = forms()[all[i].form];
  }
  return all;
}

class GrammarChainTest : public ChainTest {
 protected:
  GrammarChainTest() {
    const auto path = std::filesystem::path(testing::TempDir()) / "grammar_chain_tokenizer.json";
    std::ofstream(path) << text::tokenizer_json_from(text::test_vocabulary("bpe")).value();
    workers_.prepare = [path](worker::FakeEngine& engine) { engine.set_tokenizer(path); };
  }

  BatchOptions options(const Chain& chain, std::uint32_t blocks, Speculation speculation) const {
    BatchOptions options;
    options.end_tokens = {kEnd};
    options.vocabulary_size = worker::kFakeVocabulary;
    options.scheduler.context_tokens = 96;
    options.scheduler.kv_blocks = blocks;
    options.scheduler.block_tokens = kFakeBlockTokens;
    options.speculation = speculation;
    options.why_no_grammars = chain.why_no_grammars();
    EXPECT_EQ(options.why_no_grammars, "");
    return options;
  }

  /// One after the other, or all at once.
  std::vector<std::vector<Generation>> ask(BatchGenerator& generator, const std::vector<Asked>& all,
                                           bool at_once) {
    const std::atomic<bool> cancelled = false;
    std::vector<std::pair<sched::RequestId, std::shared_ptr<AnswerWaiter>>> waiting;
    std::vector<std::vector<Generation>> answers;
    const auto collect = [&] {
      for (const auto& [id, waiter] : waiting) {
        auto given = wait_for_answers(generator, id, *waiter, cancelled);
        EXPECT_TRUE(given) << given.error().message();
        answers.push_back(given.value_or(std::vector<Generation>()));
      }
      waiting.clear();
    };
    for (const Asked& asked : all) {
      auto waiter = std::make_shared<AnswerWaiter>(asked.request.choices, nullptr);
      const auto id = generator.submit(asked.request, waiter);
      EXPECT_TRUE(id) << id.error().message();
      if (id) waiting.emplace_back(*id, waiter);
      if (!at_once) collect();
    }
    collect();
    return answers;
  }

  const text::Tokenizer tokenizer_ = text::test_tokenizer("bpe");
};

void expect_same(const std::vector<std::vector<Generation>>& one,
                 const std::vector<std::vector<Generation>>& other) {
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    ASSERT_EQ(one[i].size(), other[i].size());
    for (std::size_t choice = 0; choice < one[i].size(); ++choice) {
      SCOPED_TRACE(testing::Message() << "request " << i << " choice " << choice);
      EXPECT_EQ(one[i][choice].tokens, other[i][choice].tokens);
      EXPECT_EQ(one[i][choice].text, other[i][choice].text);
      EXPECT_EQ(one[i][choice].logprobs, other[i][choice].logprobs);
      EXPECT_EQ(one[i][choice].finish_reason, other[i][choice].finish_reason);
    }
  }
}

TEST_F(GrammarChainTest, AnswersAreTheSameAloneBatchedDraftedAndBegunAgain) {
  const auto whole = start_over(1);
  const auto divided = start_over(3);
  std::size_t ended = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t accepted = 0;
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto requests = random_requests(seed);
    std::vector<std::vector<Generation>> alone;
    {
      BatchGenerator generator(*whole, 1, &tokenizer_, clock_,
                               options(*whole, 128, Speculation::kOff));
      alone = ask(generator, requests, false);
    }
    for (const bool has_drafts : {false, true}) {
      const auto speculation = has_drafts ? Speculation::kAlways : Speculation::kOff;
      // Room for two or three answers of the 24 or so.
      BatchGenerator generator(*divided, 3, &tokenizer_, clock_,
                               options(*divided, 40, speculation));
      expect_same(alone, ask(generator, requests, true));
      const auto stats = generator.stats().scheduler;
      preemptions += stats.preemptions;
      accepted += stats.accepted_drafts;
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      for (const Generation& answer : alone[i]) {
        if (answer.finish_reason != FinishReason::kStop || !requests[i].request.stop.empty()) {
          continue;
        }
        ended += requests[i].form == 0 ? 0 : 1;
        EXPECT_TRUE(is_of(requests[i].form, answer.text)) << requests[i].form << answer.text;
      }
    }
  }
  EXPECT_GT(ended, 30U);
  EXPECT_GT(preemptions, 0U);
  EXPECT_GT(accepted, 0U);
}

TEST_F(GrammarChainTest, AGrammarThatDoesNotCompileFailsItsRequestAlone) {
  const auto chain = start_over(2);
  BatchGenerator generator(*chain, 2, &tokenizer_, clock_, options(*chain, 128, Speculation::kOff));
  auto requests = random_requests(1);
  requests.resize(4);
  const auto expected = ask(generator, requests, true);
  GenerationRequest broken = requests[1].request;
  broken.sampling.grammar->text = "(";
  const std::atomic<bool> cancelled = false;
  auto waiter = std::make_shared<AnswerWaiter>(broken.choices, nullptr);
  const auto id = generator.submit(broken, waiter);
  ASSERT_TRUE(id);
  expect_same(expected, ask(generator, requests, true));
  const auto refused = wait_for_answers(generator, *id, *waiter, cancelled);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("regular expression"), std::string::npos)
      << refused.error().message();
}

}  // namespace
}  // namespace paceline::coordinator
