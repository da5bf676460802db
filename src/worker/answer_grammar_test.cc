#include "worker/answer_grammar.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "sampling/counter_random.h"
#include "text/test_vocabulary.h"
#include "worker/fake_engine_testing.h"
#include "worker/stage_executor.h"

namespace paceline::worker {
namespace {

using testing::HasSubstr;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kEnd = 2;
const GrammarSpec kSchema = {GrammarKind::kJsonSchema, R"({"type": "object",
  "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 50}, "yes": {"type": "boolean"},
                 "word": {"enum": ["alpha", "beta", "gamma"]}},
  "required": ["n", "yes", "word"], "additionalProperties": false})"};

std::filesystem::path tokenizer_file() {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "answer_grammar_tokenizer.json";
  std::ofstream(path) << text::tokenizer_json_from(text::test_vocabulary("bpe")).value();
  return path;
}

/// A model that knows no JSON, and its answers under kSchema.
class AnswerGrammarTest : public testing::Test {
 protected:
  static constexpr std::size_t kPrompt = 3;

  std::uint64_t vocabulary() const {
    return static_cast<std::uint64_t>(tokenizer_.vocabulary_size());
  }
  sampling::SequenceSampler sampler(std::uint64_t seed, Tokens tokens = {}) const {
    sampling::SamplingSpec spec;
    spec.temperature = 1;
    spec.seed = seed;
    spec.stop_tokens = {kEnd};
    spec.grammar = kSchema;
    tokens.insert(tokens.begin(), {5, 6, 7});
    return sampling::SequenceSampler::create(spec, kPrompt, tokens, vocabulary()).value();
  }
  AnswerGrammar grammar() { return {store_.find(kSchema).value(), vocabulary(), {kEnd}}; }
  std::vector<float> logits(const Tokens& answer) const {
    std::uint64_t state = 17;
    for (const std::uint32_t token : answer) state = state * 31 + token;
    sampling::PositionNoise noise(77, 0, state);
    std::vector<float> row(vocabulary());
    for (std::uint32_t token = 0; token < row.size(); ++token) {
      row[token] = static_cast<float>(sampling::gumbel(noise.bits(token)));
    }
    row[kEnd] += end_bias;
    return row;
  }
  /// From `begin` on, token by token, the end token included.
  Tokens answer(std::uint64_t seed, Tokens begin = {}) {
    auto chooser = sampler(seed, begin);
    AnswerGrammar masks = grammar();
    while (begin.size() < 200 && (begin.empty() || begin.back() != kEnd)) {
      const auto mask = masks.mask(chooser.history(), kPrompt);
      EXPECT_TRUE(mask) << mask.error().message();
      const auto token =
          chooser.draw(logits(begin), kPrompt + begin.size(), workspace_, mask.value());
      EXPECT_TRUE(token) << token.error().message();
      chooser.accept(*token);
      begin.push_back(*token);
    }
    return begin;
  }
  std::string text(const Tokens& answer) const {
    EXPECT_EQ(answer.back(), kEnd);
    std::string text;
    for (const std::uint32_t token : std::span(answer).first(answer.size() - 1)) {
      text += tokenizer_.token_bytes(token);
    }
    return text;
  }
  static void expect_of_schema(const std::string& text) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    ASSERT_TRUE(json.is_object() && json.size() == 3) << text;
    EXPECT_TRUE(json["n"].is_number_integer() && json["n"] >= 0 && json["n"] <= 50) << text;
    EXPECT_TRUE(json["yes"].is_boolean()) << text;
    EXPECT_TRUE(json["word"] == "alpha" || json["word"] == "beta" || json["word"] == "gamma");
  }

  const text::Tokenizer tokenizer_ = text::test_tokenizer("bpe");
  GrammarStore store_{tokenizer_file()};
  sampling::Workspace workspace_;
  float end_bias = 0;
};

TEST_F(AnswerGrammarTest, WhateverTheModelWantsTheAnswerIsOfTheSchema) {
  std::set<std::string> texts;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    texts.insert(text(answer(seed)));
    expect_of_schema(text(answer(seed)));
  }
  EXPECT_GT(texts.size(), 5U);
  for (const float bias : {1000.0F, -1000.0F}) {  // it would end at once, or never
    end_bias = bias;
    expect_of_schema(text(answer(1)));
  }
}

TEST_F(AnswerGrammarTest, DraftsChangeNothing) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Tokens plain = answer(seed);
    Tokens drafted;
    auto chooser = sampler(seed);
    AnswerGrammar masks = grammar();
    std::size_t steps = 0;
    for (; drafted.size() < plain.size() && steps < 200; ++steps) {
      // Right ones, after which one is wrong in most steps.
      Tokens drafts;
      for (std::size_t i = 0; i < 3 && drafted.size() + i < plain.size(); ++i) {
        drafts.push_back(steps % 4 == i ? 9U : plain[drafted.size() + i]);
      }
      std::vector<float> rows;
      Tokens so_far = drafted;
      for (std::size_t row = 0; row <= drafts.size(); ++row) {
        const auto own = logits(so_far);
        rows.insert(rows.end(), own.begin(), own.end());
        if (row < drafts.size()) so_far.push_back(drafts[row]);
      }
      GrammarMasks source(masks, chooser);
      const auto samples =
          chooser.verify(rows, kPrompt + drafted.size(), drafts, workspace_, &source);
      ASSERT_TRUE(samples) << samples.error().message();
      for (const auto& sample : *samples) {
        drafted.push_back(static_cast<std::uint32_t>(sample.token));
      }
    }
    EXPECT_EQ(drafted, plain);
    EXPECT_LT(steps, plain.size());
  }
}

TEST_F(AnswerGrammarTest, AnyPlaceIsReachedFromTheTokensAlone) {
  const Tokens whole = answer(3);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(answer(3, Tokens(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))),
              whole);
  }
}

TEST_F(AnswerGrammarTest, TheStateFollowsTheHistoryBackAndForth) {
  const Tokens one = answer(3);
  const Tokens other = answer(4);
  AnswerGrammar used = grammar();
  for (const Tokens& tokens : {one, other, Tokens(one.begin(), one.begin() + 4), Tokens(), other}) {
    const auto history = sampler(1, tokens).history();
    AnswerGrammar fresh = grammar();
    const auto expected = fresh.mask(history, kPrompt);
    const auto mask = used.mask(history, kPrompt);
    ASSERT_TRUE(mask && expected);
    EXPECT_TRUE(std::equal(mask->begin(), mask->end(), expected->begin(), expected->end()));
  }
  const auto wrong = used.mask(sampler(1, {9, 9, 9}).history(), kPrompt);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message(), HasSubstr("token 9 is not allowed here"));
  EXPECT_TRUE(used.mask(sampler(1).history(), kPrompt)) << "it goes on elsewhere";
}

TEST(GrammarStoreTest, GrammarsAreSharedAndErrorsNameTheFile) {
  GrammarStore store(tokenizer_file());
  const auto first = store.find(kSchema);
  ASSERT_TRUE(first);
  EXPECT_EQ(store.find(kSchema).value(), *first);
  EXPECT_NE(store.find({GrammarKind::kRegex, "a"}).value(), *first);
  const auto broken = store.find({GrammarKind::kRegex, "("});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code(), ErrorCode::kInvalidArgument);
  for (std::size_t i = 0; i < GrammarStore::kKept; ++i) {
    ASSERT_TRUE(store.find({GrammarKind::kRegex, "a{" + std::to_string(i + 1) + "}"}));
  }
  EXPECT_NE(store.find(kSchema).value(), *first) << "the oldest is forgotten";
  const auto newest = store.find(kSchema).value();
  store.forget({GrammarKind::kRegex, "b"});
  EXPECT_EQ(store.find(kSchema).value(), newest);
  store.forget(kSchema);
  EXPECT_NE(store.find(kSchema).value(), newest);
  const auto missing = GrammarStore("/nowhere/tokenizer.json").find(kSchema);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message(), HasSubstr("/nowhere/tokenizer.json"));
  EXPECT_THAT(GrammarStore({}).find(kSchema).error().message(), HasSubstr("no tokenizer.json"));
}

/// A whole stage whose answers must be of a grammar.
class GrammarStageTest : public testing::Test {
 protected:
  void start(const std::filesystem::path& tokenizer) {
    auto engine = std::make_unique<FakeEngine>(LayerRange{0, 3}, 3);
    engine->set_tokenizer(tokenizer);
    executor_ = std::make_unique<StageExecutor>(std::move(engine));
  }
  static wire::SequenceSpec opened(std::uint64_t id, std::optional<GrammarSpec> grammar) {
    wire::SequenceSpec spec;
    spec.sequence = SequenceId(id);
    spec.sampling.stop_tokens = {kEnd};
    spec.sampling.grammar = std::move(grammar);
    spec.prompt_tokens = 1;
    spec.history = {5};
    return spec;
  }
  static wire::StepSequence row(std::uint64_t id, std::uint32_t past, std::int64_t token) {
    wire::StepSequence entry{SequenceId(id), past, 1, {token}, {0}, {}, {{}}};
    for (std::uint32_t i = 0; i < 4; ++i) entry.blocks[0].emplace_back(10 * id + i);
    return entry;
  }
  Result<StepProduct> execute(const wire::Step& step) {
    return executor_->execute(StepId(++step_), step, {});
  }

  std::uint64_t step_ = 0;
  std::unique_ptr<StageExecutor> executor_;
};

TEST_F(GrammarStageTest, AnAnswerEndsWhereItsGrammarEnds) {
  start(tokenizer_file());
  const text::Tokenizer tokenizer = text::test_tokenizer("bpe");
  wire::Step step;
  step.opened = {opened(1, GrammarSpec{GrammarKind::kRegex, "[0-9]{3}"})};
  std::string text;
  std::int64_t token = 5;
  for (std::uint32_t past = 0; past < 5; ++past) {
    step.sequences = {row(1, past, token)};
    const auto product = execute(step);
    ASSERT_TRUE(product) << product.error().message();
    step.opened.clear();
    EXPECT_EQ(product->samples.at(0).failure, "");
    token = product->samples[0].token;
    if (past >= 3) {
      EXPECT_EQ(token, kEnd) << "also where nobody reads it any more";
    } else {
      text += tokenizer.token_bytes(token);
    }
  }
  EXPECT_THAT(text, testing::MatchesRegex("[0-9][0-9][0-9]"));
}

TEST_F(GrammarStageTest, AGrammarThatCannotBeUsedFailsItsSequenceAlone) {
  start("/nowhere/tokenizer.json");
  wire::Step step;
  step.opened = {opened(1, kSchema), opened(2, std::nullopt)};
  step.sequences = {row(1, 0, 5), row(2, 0, 5)};
  for (std::uint32_t past = 0; past < 3; ++past) {
    const auto product = execute(step);
    ASSERT_TRUE(product) << product.error().message();
    ASSERT_EQ(product->samples.size(), 2U);
    EXPECT_THAT(product->samples[0].failure, HasSubstr("/nowhere/tokenizer.json"));
    EXPECT_EQ(product->samples[0].token, kEnd);
    EXPECT_EQ(product->samples[1].failure, "");
    step.opened.clear();
    step.sequences = {row(1, past + 1, product->samples[0].token),
                      row(2, past + 1, product->samples[1].token)};
  }
  // With drafts: one sample, and the rows behind are none.
  wire::StepSequence drafted = row(1, 3, kEnd);
  drafted.new_tokens = 3;
  drafted.tokens = {std::int64_t{kEnd}, std::int64_t{8}, std::int64_t{9}};
  drafted.sampled_rows = {0, 1, 2};
  drafted.drafts = {8, 9};
  step.sequences = {drafted};
  const auto product = execute(step);
  ASSERT_TRUE(product) << product.error().message();
  ASSERT_EQ(product->samples.size(), 1U);
  EXPECT_NE(product->samples[0].failure, "");
}

}  // namespace
}  // namespace paceline::worker
