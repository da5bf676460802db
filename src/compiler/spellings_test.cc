// The models of tests/golden/spellings: stacks of experts and matrices in FP8, against
// transformers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include <openvino/openvino.hpp>

#include "compiler/golden_model_testing.h"
#include "compiler/ir_directory.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

class SpellingsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    directory_ =
        fs::temp_directory_path() / fmt::format("paceline-spelling-{}-{}", GetParam(), ::getpid());
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  /// How far logits are from those of transformers, with weights of a kind.
  double difference(WeightKind kind) {
    const std::string name = std::string("../spellings/") + GetParam();
    const GoldenModel golden = read_golden(name);
    WriteOptions options;
    options.weights.weights = kind;
    NoProgress progress;
    const auto built =
        build_ir_directory(*draw_tensors(name), golden_config(name), directory_, progress, options);
    EXPECT_TRUE(built) << built.error().message();
    if (!built) return INFINITY;
    ov::Core core;
    const auto request =
        core.compile_model(directory_ / "openvino_model.xml", "CPU", exact_properties())
            .create_infer_request();
    const auto logits = run_golden(request, golden, golden.prefills[0]);
    return golden_difference(golden, logits, golden.logits[0]);
  }

 private:
  fs::path directory_;
};

TEST_P(SpellingsTest, LogitsAreThoseOfTransformers) {
  const double difference = this->difference(WeightKind::kF32);
  std::printf("%s: %.2e\n", GetParam(), difference);
  EXPECT_LE(difference, 1e-4);
}

/// FP8 times its scales is kept in f16, within 5e-4 of each weight.
TEST_P(SpellingsTest, KeptWeightsGiveNearlyTheSame) {
  EXPECT_LE(difference(WeightKind::kKeep), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(All, SpellingsTest,
                         testing::Values("llama_fp8_blocks", "llama_fp8_rows", "llama_fp8_tensor",
                                         "mixtral_stacks", "qwen3_moe_stacks"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace paceline::compiler
