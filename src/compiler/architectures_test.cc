// Every architecture against Hugging Face transformers: logits and greedy tokens of the models of
// tests/golden/architectures.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <openvino/openvino.hpp>

#include "compiler/golden_gguf_testing.h"
#include "compiler/golden_model_testing.h"
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
    const auto built =
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

std::vector<std::int64_t> best_tokens(const std::vector<float>& logits, std::size_t vocabulary) {
  std::vector<std::int64_t> best;
  const std::size_t row_size = logits.size() / 2;
  for (std::size_t end = row_size; end <= logits.size(); end += row_size) {
    const auto last = logits.begin() + static_cast<std::ptrdiff_t>(end - vocabulary);
    const auto row_end = logits.begin() + static_cast<std::ptrdiff_t>(end);
    best.push_back(std::max_element(last, row_end) - last);
  }
  return best;
}

TEST_P(ArchitecturesTest, GreedyTokensAreThoseOfTransformers) {
  GoldenRun run(request(), golden_.padding);
  std::vector<float> logits;
  std::vector<std::vector<std::int64_t>> next(2);
  for (std::size_t begin = 0; begin < golden_.tokens();) {
    const std::size_t end = begin == 0 ? golden_.prefills[0] : begin + 1;
    for (std::size_t row = 0; row < 2; ++row) {
      next[row].assign(golden_.ids[row].begin() + static_cast<std::ptrdiff_t>(begin),
                       golden_.ids[row].begin() + static_cast<std::ptrdiff_t>(end));
    }
    logits = run.feed(next);
    begin = end;
  }
  std::vector<std::vector<std::int64_t>> answer(2);
  while (answer[0].size() < golden_.greedy[0].size()) {
    const auto best = best_tokens(logits, golden_.vocabulary);
    for (std::size_t row = 0; row < 2; ++row) {
      answer[row].push_back(best[row]);
      next[row] = {best[row]};
    }
    logits = run.feed(next);
  }
  EXPECT_EQ(answer, golden_.greedy);
}

/// The drawn weights are exact in any of the plain types.
TEST_P(ArchitecturesTest, SixteenBitWeightsGiveTheSame) {
  for (const auto type : {model::TensorType::kF16, model::TensorType::kBF16}) {
    build(type);
    const auto logits = run_golden(request(), golden_, golden_.prefills[0]);
    EXPECT_LE(golden_difference(golden_, logits, golden_.logits[0]), 1e-4);
  }
}

/// Other names, stacks, order of rows and norms: the same model.
TEST_P(ArchitecturesTest, TensorsOfAGgufGiveTheSame) {
  NoProgress progress;
  const auto built =
      build_ir_directory(*gguf_tensors(GetParam()), gguf_config(GetParam()), directory_, progress);
  ASSERT_TRUE(built) << built.error().message();
  const auto logits = run_golden(request(), golden_, golden_.prefills[0]);
  EXPECT_LE(golden_difference(golden_, logits, golden_.logits[0]), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, ArchitecturesTest, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace paceline::compiler
