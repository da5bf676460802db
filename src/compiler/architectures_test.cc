// Every architecture against Hugging Face transformers: logits and greedy tokens of the models of
// tests/golden/architectures.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <openvino/openvino.hpp>

#include "compiler/golden_model.h"
#include "compiler/ir_directory.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

class ArchitecturesTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden_ = read_golden(GetParam());
    directory_ = fs::temp_directory_path() /
                 fmt::format("paceline-architecture-{}-{}", GetParam(), ::getpid());
    fs::create_directories(directory_);
    build(model::TensorType::kF32);
  }
  void TearDown() override { fs::remove_all(directory_); }

  void build(model::TensorType type) {
    NoProgress progress;
    const auto tensors = draw_tensors(GetParam(), type);
    const Status built =
        build_ir_directory(*tensors, golden_config(GetParam()), directory_, progress);
    ASSERT_TRUE(built) << built.error().message();
  }
  ov::InferRequest request() {
    return core_.compile_model(directory_ / "openvino_model.xml", "CPU", exact_properties())
        .create_infer_request();
  }

  ov::Core core_;
  fs::path directory_;
  GoldenModel golden_;
};

TEST_P(ArchitecturesTest, LogitsAreThoseOfTransformers) {
  ov::InferRequest request = this->request();
  for (std::size_t run = 0; run < golden_.prefills.size(); ++run) {
    const auto logits = run_golden(request, golden_, golden_.prefills[run]);
    const double difference = golden_difference(golden_, logits, golden_.logits[run]);
    std::printf("%s: %zu at once: %.2e\n", GetParam().c_str(), golden_.prefills[run], difference);
    EXPECT_LE(difference, 1e-4) << golden_.prefills[run];
  }
}

INSTANTIATE_TEST_SUITE_P(All, ArchitecturesTest, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace paceline::compiler
