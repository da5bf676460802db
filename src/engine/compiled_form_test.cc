// Stages from the cache compute what compiled ones do, and everything that does not fit is
// compiled.
#include "engine/compiled_form.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <numeric>

#include "engine/precompile.h"
#include "engine/stage_graph.h"
#include "engine/stateful_graph.h"

namespace paceline::engine {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CompiledFormTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::temp_directory_path() / fmt::format("paceline-{}-{}", info->name(), ::getpid());
    fs::remove_all(root_);
    cache_ = shard::FormCache::open(root_ / "forms").value();
    options_.package = fs::path(PACELINE_SOURCE_DIR "/tests/tiny_models/qwen3");
    options_.package_digest = "0123456789abcdef";
    options_.layers = {0, 4};
    options_.profile = Profile::kExact;
    options_.threads = 1;
    options_.before_reading = [this]() -> Status {
      ++reads_;
      return {};
    };
  }
  void TearDown() override { fs::remove_all(root_); }

  CompiledForm load(bool with_cache = true) {
    auto form = load_compiled_form(core_, options_, with_cache ? &*cache_ : nullptr);
    EXPECT_TRUE(form) << form.error().message();
    return form ? *std::move(form) : CompiledForm();
  }
  fs::path stored() const { return fs::directory_iterator(root_ / "forms")->path(); }

  /// Logits of a prefill of five tokens and one more.
  static std::vector<float> logits(ov::CompiledModel model) {
    auto request = model.create_infer_request();
    std::vector<float> all;
    std::int64_t past = 0;
    for (const std::size_t tokens : {std::size_t{5}, std::size_t{1}}) {
      const auto ids = [&](std::size_t columns, auto value) {
        ov::Tensor tensor(ov::element::i64, {1, columns});
        for (std::size_t i = 0; i < columns; ++i) tensor.data<std::int64_t>()[i] = value(i);
        return tensor;
      };
      request.set_tensor("input_ids", ids(tokens, [&](std::size_t i) {
                           return past + static_cast<std::int64_t>(i) * 7 + 3;
                         }));
      request.set_tensor("attention_mask", ids(static_cast<std::size_t>(past) + tokens,
                                               [](std::size_t) { return 1; }));
      request.set_tensor("position_ids", ids(tokens, [&](std::size_t i) {
                           return past + static_cast<std::int64_t>(i);
                         }));
      ov::Tensor beams(ov::element::i32, {1});
      beams.data<std::int32_t>()[0] = 0;
      request.set_tensor("beam_idx", beams);
      ov::Tensor sampled(ov::element::i64, {tokens});
      std::iota(sampled.data<std::int64_t>(), sampled.data<std::int64_t>() + tokens, 0);
      request.set_tensor(kSampledRowsInput, sampled);
      request.infer();
      const ov::Tensor output = request.get_output_tensor(0);
      all.insert(all.end(), output.data<float>(), output.data<float>() + output.get_size());
      past += static_cast<std::int64_t>(tokens);
    }
    return all;
  }

  fs::path root_;
  ov::Core core_;
  FormOptions options_;
  std::optional<shard::FormCache> cache_;
  int reads_ = 0;
};

TEST_F(CompiledFormTest, AnImportedStageComputesWhatTheCompiledOneDoes) {
  for (const Profile profile : {Profile::kExact, Profile::kFast}) {
    options_.profile = profile;
    const auto expected = logits(load(false).model);
    EXPECT_GT(expected.size(), 6U * 200);
    const CompiledForm compiled = load();
    EXPECT_FALSE(compiled.is_imported);
    EXPECT_TRUE(compiled.is_stored);
    EXPECT_EQ(compiled.reason, "the cache has no form of it");
    EXPECT_EQ(compiled.warning, "");
    EXPECT_GT(compiled.form_bytes, shard::kFormTrailerBytes);
    EXPECT_EQ(logits(compiled.model), expected);
    const int reads = reads_;
    const CompiledForm imported = load();
    EXPECT_TRUE(imported.is_imported) << imported.reason << imported.warning;
    EXPECT_EQ(reads_, reads) << "the package is not read";
    EXPECT_EQ(imported.weight_bytes, compiled.weight_bytes);
    EXPECT_EQ(imported.form_bytes, compiled.form_bytes);
    EXPECT_GT(imported.compile_time, Duration::zero());
    EXPECT_EQ(logits(imported.model), expected);
  }
}

TEST_F(CompiledFormTest, AnyRangeOfLayersHasAFormOfItsOwn) {
  for (const LayerRange range : {LayerRange{0, 2}, LayerRange{2, 4}, LayerRange{1, 2}}) {
    options_.layers = range;
    EXPECT_TRUE(load().is_stored);
    EXPECT_TRUE(load().is_imported);
  }
}

TEST_F(CompiledFormTest, WhatDoesNotFitIsCompiledAndTheReasonSaid) {
  load();
  options_.threads = 2;
  const CompiledForm other = load();
  EXPECT_FALSE(other.is_imported);
  EXPECT_EQ(other.reason, "property INFERENCE_NUM_THREADS: the form has 1, this is 2");
  EXPECT_TRUE(load().is_imported) << "the form was replaced";
  // The first 16 digits are in the name, the others are not.
  options_.package_digest += "77";
  EXPECT_THAT(load().reason, HasSubstr("package_digest: the form has 0123456789abcdef"));
  EXPECT_EQ(load(false).reason, "no cache is used");
}

TEST_F(CompiledFormTest, DamageIsAnsweredByCompilingAndReplacing) {
  const auto expected = logits(load().model);
  const std::uint64_t blob = fs::file_size(stored()) - shard::kFormTrailerBytes;
  for (const std::uint64_t offset : {std::uint64_t{100}, blob / 2, blob - 1, blob + 1}) {
    std::fstream(stored(), std::ios::in | std::ios::out).seekp(static_cast<long>(offset)).put('~');
    const CompiledForm form = load();
    EXPECT_FALSE(form.is_imported) << offset;
    EXPECT_EQ(form.reason, "the form is damaged");
    EXPECT_THAT(form.warning, HasSubstr(stored().string()));
    EXPECT_EQ(logits(form.model), expected);
    EXPECT_TRUE(load().is_imported) << offset;
  }
  fs::resize_file(stored(), 1000);
  EXPECT_EQ(load().reason, "the form is damaged");
  EXPECT_TRUE(load().is_imported);
}

TEST_F(CompiledFormTest, ABlobThatThePluginRefusesIsCompiled) {
  load();
  shard::FormHeader header =
      (*cache_->find([&] {
        shard::FormIdentity identity;
        identity = {"0123456789abcdef", {0, 4}, "CPU", "stateful", Profile::kExact, "", "", "", {}};
        return identity;
      }()))
          ->header();
  ASSERT_TRUE(cache_->store(header, [](std::ostream& stream) -> Status {
    stream << "no blob at all";
    return {};
  }));
  const CompiledForm form = load();
  EXPECT_FALSE(form.is_imported);
  EXPECT_EQ(form.reason, "the device refuses the form");
  EXPECT_NE(form.warning, "");
  EXPECT_TRUE(load().is_imported);
}

// As versions stored it that had no final rows.
TEST_F(CompiledFormTest, AnOlderLastStageIsCompiledAnew) {
  load();
  shard::FormIdentity identity;
  identity = {"0123456789abcdef", {0, 4}, "CPU", "stateful", Profile::kExact, "", "", "", {}};
  const shard::FormHeader header = (*cache_->find(identity))->header();
  const auto stage = read_stage(core_, options_, options_.layers).value();
  ASSERT_TRUE(make_stateful(stage, ov::element::f32));
  ASSERT_EQ(stage->get_results().size(), 2U);
  stage->remove_result(stage->get_results().back());
  auto older =
      core_.compile_model(stage, "CPU", form_properties(core_, options_, header.weight_group));
  ASSERT_TRUE(cache_->store(header, [&](std::ostream& stream) -> Status {
    older.export_model(stream);
    return {};
  }));
  const CompiledForm form = load();
  EXPECT_FALSE(form.is_imported);
  EXPECT_EQ(form.reason, "the form is of an older version: it gives no final rows");
  EXPECT_EQ(logits(form.model), logits(older));
  EXPECT_TRUE(load().is_imported) << "the form was replaced";
}

TEST_F(CompiledFormTest, NoErrorOfTheCacheStopsALoad) {
  cache_ = shard::FormCache::open(root_ / "small", 100).value();
  const CompiledForm form = load();
  EXPECT_FALSE(form.is_stored);
  EXPECT_THAT(form.warning, HasSubstr("the cache 0 in all"));
  EXPECT_FALSE(logits(form.model).empty());
}

TEST_F(CompiledFormTest, WhatIsWrongWithThePackageIsTheError) {
  options_.before_reading = []() -> Status { return fail(ErrorCode::kDataLoss, "damaged"); };
  EXPECT_EQ(load_compiled_form(core_, options_, &*cache_).error().message(), "damaged");
  options_.before_reading = nullptr;
  options_.layers = {2, 9};
  EXPECT_FALSE(load_compiled_form(core_, options_, &*cache_));
  options_.package = root_ / "none";
  EXPECT_FALSE(load_compiled_form(core_, options_, &*cache_));
  EXPECT_TRUE(fs::is_empty(root_ / "forms"));
}

TEST_F(CompiledFormTest, PrecompilingFillsTheCacheOnceAndTellsTheGain) {
  const auto first = precompile(options_, *cache_);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_FALSE(first->was_there);
  EXPECT_EQ(first->reason, "the cache has no form of it");
  EXPECT_GT(first->without_cache, Duration::zero());
  EXPECT_GT(first->with_cache, Duration::zero());
  EXPECT_EQ(first->form_bytes, fs::file_size(stored()));
  const auto again = precompile(options_, *cache_);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->was_there);
  EXPECT_EQ(again->without_cache / std::chrono::microseconds(1),
            first->without_cache / std::chrono::microseconds(1))
      << "as it was measured then";
  EXPECT_EQ(reads_, 1);

  const auto small = precompile(options_, shard::FormCache::open(root_ / "small", 100).value());
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(small.error().message(), HasSubstr((root_ / "small").string()));
}

TEST_F(CompiledFormTest, DevicesAreChecked) {
  options_.device = "NPU.7";
  for (const auto& error :
       {precompile(options_, *cache_).error(), why_paged_is_not_imported(options_).error()}) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.message(), HasSubstr("finds no NPU.7; it finds CPU"));
  }
}

// Where this fails, a release of OpenVINO imports paged stages: the paged engine should use it.
TEST_F(CompiledFormTest, APagedStageIsNotImportedAndThePluginSaysWhy) {
  const auto why = why_paged_is_not_imported(options_);
  ASSERT_TRUE(why) << why.error().message();
  EXPECT_THAT(*why, HasSubstr("k_head_size"));
}

}  // namespace
}  // namespace paceline::engine
