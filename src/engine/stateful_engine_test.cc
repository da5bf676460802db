// The stateful engine on the tiny models: against the paged one, chains against the whole, and what
// it forgets.
#include "engine/stateful_engine.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <ostream>

#include "engine/compiled_form.h"
#include "engine/engine_testing.h"
#include "engine/paged_engine.h"
#include "engine/precompile.h"
#include "engine/stateful_graph.h"

namespace paceline::engine {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Result<std::unique_ptr<StageEngine>> load(const StageOptions& options) {
  return load_stateful_engine(options, {});
}

class StatefulChain : public EngineChain {
 public:
  StatefulChain(const std::string& model, std::uint32_t stages, Profile profile)
      : EngineChain(model, stages, profile, load) {}
};

/// Alibi, sliding windows, positions counted from the mask.
bool counts_in_columns(const std::string& model) {
  const std::vector<std::string> models = {"bloom", "gemma2", "gemma3", "gpt_oss", "opt"};
  return std::find(models.begin(), models.end(), model) != models.end();
}

/// Logits of all rows of sequence 1, in steps of these sizes.
Logits in_steps(EngineChain& chain, const std::vector<std::uint32_t>& sizes) {
  Logits all;
  std::uint32_t past = 0;
  for (const std::uint32_t size : sizes) {
    const Logits logits = chain.run(batch_of({rows(1, past, size)}));
    EXPECT_EQ(logits.size(), size * kVocabulary);
    all.insert(all.end(), logits.begin(), logits.end());
    past += size;
  }
  return all;
}

/// The greedy answer to 19 tokens of sequence 1.
std::vector<std::int64_t> greedy(EngineChain& chain, std::uint32_t tokens) {
  StageBatch batch = batch_of({rows(1, 0, 19)});
  std::vector<std::int64_t> answer;
  for (std::uint32_t past = 19; answer.size() < tokens; ++past) {
    batch.sequences[0].sampled_rows = {batch.sequences[0].new_tokens - 1};
    const Logits logits = chain.run(batch);
    if (logits.size() != kVocabulary) return {};
    answer.push_back(std::max_element(logits.begin(), logits.end()) - logits.begin());
    batch = batch_of({rows(1, past, 1)});
    batch.tokens = {answer.back()};
  }
  return answer;
}

/// Logits of two rows after 40, whatever other rows were computed and forgotten in between.
Logits after_forgetting(EngineChain& chain, int rounds) {
  chain.run(batch_of({rows(1, 0, 40)}));
  StageBatch wrong = batch_of({rows(1, 40, 5)});
  for (std::int64_t& token : wrong.tokens) token = 250 - token;
  for (int round = 0; round < rounds; ++round) chain.run(wrong);
  return chain.run(batch_of({rows(1, 40, 2)}));
}

class StatefulModelTest : public testing::TestWithParam<std::string> {};

TEST_P(StatefulModelTest, ExactIsTheSameInAnyStepsAndStages) {
  EngineChain paged(GetParam(), 1, Profile::kExact, load_paged_engine);
  StatefulChain whole(GetParam(), 1, Profile::kExact);
  StatefulChain cut(GetParam(), 2, Profile::kExact);
  const auto tokens = greedy(paged, 24);
  ASSERT_EQ(tokens.size(), 24U);
  EXPECT_EQ(greedy(whole, 24), tokens) << "as the paged engine";
  EXPECT_EQ(greedy(cut, 24), tokens) << "as the paged engine, in two stages";

  const Logits expected = in_steps(whole, {21, 1, 1, 1});
  EXPECT_LT(difference(in_steps(paged, {21, 1, 1, 1}), expected), 2e-4F);
  EXPECT_EQ(difference(in_steps(cut, {21, 1, 1, 1}), expected), 0.0F) << "in two stages";
  EXPECT_EQ(difference(in_steps(cut, {7, 7, 7, 3}), expected), 0.0F) << "in chunks";

  const Logits straight = after_forgetting(whole, 0);
  EXPECT_EQ(difference(after_forgetting(whole, 1), straight), 0.0F);
  EXPECT_EQ(difference(after_forgetting(cut, 2), straight), 0.0F);
}

class StatefulFastTest : public testing::TestWithParam<std::string> {};

TEST_P(StatefulFastTest, StagesComputeWhatTheWholeDoesAndForget) {
  StatefulChain whole(GetParam(), 1, Profile::kFast);
  StatefulChain cut(GetParam(), 2, Profile::kFast);
  const std::vector<std::uint32_t> sizes = {19, 1, 1, 5, 1};
  EXPECT_EQ(difference(in_steps(cut, sizes), in_steps(whole, sizes)), 0.0F);

  // Once, and so often that a mask alone would no longer do.
  const Logits straight = after_forgetting(whole, 0);
  for (const int rounds : {1, 20}) {
    const Logits logits = after_forgetting(whole, rounds);
    // A mask leaves another order of the sums.
    EXPECT_LE(difference(logits, straight), counts_in_columns(GetParam()) ? 0.0F : 0.05F) << rounds;
    EXPECT_EQ(difference(after_forgetting(cut, rounds), logits), 0.0F);
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, StatefulModelTest, testing::ValuesIn(cut::tiny_model_names()));

/// Those that differ most in their graphs; the first and the last forget by mask.
INSTANTIATE_TEST_SUITE_P(TinyModels, StatefulFastTest,
                         testing::Values("llama_tied", "gemma3", "gpt_oss", "bloom", "qwen3_moe"));

class StatefulEngineTest : public testing::Test {
 protected:
  static void expect_refused(StageEngine& engine, const StageBatch& batch, ErrorCode code,
                             const char* message) {
    const auto result = engine.run(batch);
    ASSERT_FALSE(result) << message;
    EXPECT_EQ(result.error().code(), code);
    EXPECT_THAT(result.error().message(), HasSubstr(message));
  }
};

TEST_F(StatefulEngineTest, TheInfoTellsWhatItIsAndHolds) {
  StatefulChain chain("llama_tied", 2, Profile::kExact);
  EngineChain paged("llama_tied", 2, Profile::kExact, load_paged_engine);
  for (const std::size_t stage : {0U, 1U}) {
    const StageInfo& info = chain.stage(stage).info();
    const StageInfo& other = paged.stage(stage).info();
    EXPECT_EQ(info.engine, EngineKind::kStateful);
    EXPECT_EQ(info.max_sequences, 1U);
    EXPECT_FALSE(info.shares_kv);
    EXPECT_EQ(other.engine, EngineKind::kPaged);
    EXPECT_TRUE(other.shares_kv);
    EXPECT_EQ(info.is_first, other.is_first);
    EXPECT_EQ(info.is_last, other.is_last);
    EXPECT_EQ(info.input_boundary, other.input_boundary);
    EXPECT_EQ(info.output_boundary, other.output_boundary);
    EXPECT_EQ(info.vocabulary_size, other.vocabulary_size);
    EXPECT_EQ(info.weight_bytes, other.weight_bytes);
    // The paged one has one block more, for padding rows.
    EXPECT_EQ(info.kv_bytes * (kBlocks + 1), other.kv_bytes * kBlocks);
  }
}

TEST_F(StatefulEngineTest, OnlySampledRowsReachTheHead) {
  for (const Profile profile : {Profile::kExact, Profile::kFast}) {
    StatefulChain all("qwen3", 1, profile);
    StatefulChain some("qwen3", 1, profile);
    const Logits expected = all.run(batch_of({rows(1, 0, 6)}));
    StageBatch picked = batch_of({rows(1, 0, 6)});
    picked.sequences[0].sampled_rows = {1, 4, 5};
    const Logits logits = some.run(picked);
    ASSERT_EQ(logits.size(), 3 * kVocabulary);
    const Logits row_4(expected.begin() + 4 * kVocabulary, expected.begin() + 5 * kVocabulary);
    const Logits second(logits.begin() + kVocabulary, logits.begin() + 2 * kVocabulary);
    EXPECT_LE(difference(second, row_4), profile == Profile::kExact ? 0.0F : 0.02F);
    StageBatch none = batch_of({rows(1, 6, 4)});
    none.sequences[0].sampled_rows.clear();
    EXPECT_THAT(some.run(none), IsEmpty()) << "a chunk of a prompt needs no logits";
  }
}

TEST_F(StatefulEngineTest, AFreedSequenceMakesRoomForTheNext) {
  StatefulChain chain("qwen3", 1, Profile::kExact);
  const Logits first = chain.run(batch_of({rows(1, 0, 7)}));
  StageBatch second = batch_of({rows(2, 0, 7)});
  expect_refused(chain.stage(0), second, ErrorCode::kFailedPrecondition,
                 "sequence 2 cannot begin: the stateful engine holds one at a time, now 1");
  second.freed = {SequenceId(1)};
  EXPECT_GT(difference(chain.run(second), first), 0.0F);
  const std::vector<SequenceId> others = {SequenceId(1), SequenceId(9)};
  chain.stage(0).forget(others);
  chain.run(batch_of({rows(2, 7, 1)}));  // still there
  const std::vector<SequenceId> all = {SequenceId(2)};
  chain.stage(0).forget(all);
  EXPECT_EQ(difference(chain.run(batch_of({rows(1, 0, 7)})), first), 0.0F);
}

TEST_F(StatefulEngineTest, WhatItCannotDoIsRefusedAndChangesNothing) {
  StatefulChain chain("llama_tied", 2, Profile::kExact);
  StatefulChain untouched("llama_tied", 2, Profile::kExact);
  const StageBatch good = batch_of({rows(1, 0, 3)});
  EXPECT_EQ(difference(chain.run(good), untouched.run(good)), 0.0F);
  const StageBatch next = batch_of({rows(1, 3, 1)});
  const auto kInvalid = ErrorCode::kInvalidArgument;

  expect_refused(chain.stage(0), batch_of({rows(1, 3, 1), rows(2, 0, 1)}), kInvalid,
                 "rows of 2 sequences and 0 block copies");
  expect_refused(chain.stage(0), StageBatch(), kInvalid, "rows of 0 sequences");
  StageBatch bad = next;
  bad.copies = {{BlockId(0), BlockId(1)}};
  expect_refused(chain.stage(0), bad, kInvalid, "1 block copies");
  bad = batch_of({rows(2, 3, 1)});
  bad.freed = {SequenceId(1)};  // and yet nothing is freed by what fails
  expect_refused(chain.stage(0), bad, ErrorCode::kFailedPrecondition,
                 "sequence 2 continues at token 3, the stateful engine holds 0 of its own");
  expect_refused(chain.stage(0), batch_of({rows(1, 4, 1)}), ErrorCode::kFailedPrecondition,
                 "sequence 1 continues at token 4, the stateful engine holds 3");
  expect_refused(chain.stage(0), batch_of({rows(1, 3, kBlocks * kBlockTokens)}), kInvalid,
                 "512 rows after 3, expected 1 to 509");
  expect_refused(chain.stage(0), batch_of({rows(1, 3, 0)}), kInvalid, "0 rows after 3");
  bad = next;
  bad.sequences[0].sampled_rows = {1};
  expect_refused(chain.stage(0), bad, kInvalid, "samples row 1 of 1");
  bad = next;
  bad.tokens = {kVocabulary};
  expect_refused(chain.stage(0), bad, kInvalid, "token id 256, the model has 256");
  const std::vector<std::byte> bytes(33 * 4);
  bad = next;
  bad.boundaries = {bytes};
  expect_refused(chain.stage(1), bad, kInvalid, "hidden_states has 132 bytes, 128 are expected");
  EXPECT_EQ(difference(chain.run(next), untouched.run(next)), 0.0F);
}

TEST_F(StatefulEngineTest, ASequenceIsAsLongAsTheContext) {
  StageOptions options = options_for("qwen3", {0, kLayers}, Profile::kFast);
  for (const auto& [context, longest] : {std::pair{40U, 40U}, {8U, kBlockTokens}, {9999U, 512U}}) {
    options.context_tokens = context;
    const auto engine = load(options);
    ASSERT_TRUE(engine) << engine.error().message();
    expect_refused(**engine, batch_of({rows(1, 0, longest + 1)}), ErrorCode::kInvalidArgument,
                   fmt::format("expected 1 to {}", longest).c_str());
    EXPECT_TRUE((*engine)->run(batch_of({rows(1, 0, longest)})));
  }
}

TEST_F(StatefulEngineTest, AStageOfTheCacheComputesWhatTheCompiledOneDoes) {
  const auto root =
      std::filesystem::temp_directory_path() / fmt::format("paceline-stateful-{}", ::getpid());
  const auto cache = shard::FormCache::open(root).value();
  const auto forms = [&] { return std::distance(std::filesystem::directory_iterator(root), {}); };
  std::ptrdiff_t stored = 0;
  for (const LayerRange layers : {LayerRange{0, kLayers}, LayerRange{2, kLayers}}) {
    const StageOptions options = options_for("gemma3", layers, Profile::kFast);
    const auto compiled = load_stateful_engine(options, {&cache, "0123456789abcdef", {}});
    EXPECT_EQ(forms(), stored) << "nothing is stored without being asked";
    FormOptions form;
    form.package = options.package;
    form.package_digest = "0123456789abcdef";
    form.layers = layers;
    form.threads = options.threads;
    ASSERT_TRUE(precompile(form, cache));
    EXPECT_EQ(forms(), ++stored);
    const auto imported = load_stateful_engine(
        options, {&cache, "0123456789abcdef",
                  [] { return Status(fail(ErrorCode::kInternal, "was read")); }});
    ASSERT_TRUE(compiled) << compiled.error().message();
    ASSERT_TRUE(imported) << imported.error().message();
    StageInfo expected = (*compiled)->info();
    EXPECT_EQ(expected.form, "compiled");
    EXPECT_EQ((*imported)->info().form, "imported");
    EXPECT_EQ((*imported)->info().input_boundary, expected.input_boundary);
    EXPECT_EQ((*imported)->info().is_last, expected.is_last);
    EXPECT_EQ((*imported)->info().vocabulary_size, kVocabulary);
    EXPECT_EQ((*imported)->info().final_width, expected.is_last ? 32U : 0U);
    EXPECT_EQ((*imported)->info().kv_bytes, expected.kv_bytes);
    StageBatch batch = batch_of({rows(1, 0, 9)});
    std::vector<std::byte> hidden;
    if (layers.begin > 0) {
      hidden.resize(9 * expected.input_boundary[0].row_bytes(), std::byte{0x3c});
      batch.boundaries = {hidden};
    }
    const auto one = (*compiled)->run(batch).value().logits;
    const auto other = (*imported)->run(batch).value().logits;
    EXPECT_EQ(difference({one.begin(), one.end()}, {other.begin(), other.end()}), 0.0F);
    batch.tokens.back() = kVocabulary;
    EXPECT_EQ((*imported)->run(batch).has_value(), layers.begin > 0) << "ids are checked here, too";
  }
  std::filesystem::remove_all(root);
}

TEST_F(StatefulEngineTest, WhatCannotBeLoadedSaysWhy) {
  const auto missing = load(options_for("none", {0, 1}, Profile::kExact));
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message(), HasSubstr("none/openvino_model.xml"));
  const auto beyond = load(options_for("qwen3", {2, 5}, Profile::kExact));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code(), ErrorCode::kOutOfRange);
}

TEST(StatefulGraphTest, OnlyPlainCausalAttentionMayRewindByMask) {
  ov::Core core;
  for (const std::string& name : cut::tiny_model_names()) {
    EXPECT_EQ(rewinds_by_mask(*cut::read_tiny_model(core, name).model), !counts_in_columns(name))
        << name;
  }
}

TEST(StatefulGraphTest, AnInputThatIsNotKnownIsRefusedByName) {
  ov::Core core;
  const auto model = cut::read_tiny_model(core, "qwen3").model->clone();
  const auto odd = std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::PartialShape{1});
  odd->output(0).set_names({"pixel_values"});
  model->add_parameters({odd});
  const Status made = make_stateful(model, ov::element::f32);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(made.error().message(), HasSubstr("pixel_values"));
}

}  // namespace
}  // namespace paceline::engine
