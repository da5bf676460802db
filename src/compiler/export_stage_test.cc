// Stages as IRs of their own: a chain of them, read by plain OpenVINO, equals the whole model.
#include "compiler/export_stage.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include <openvino/op/constant.hpp>

#include "compiler/compile_package.h"
#include "cut/test_models.h"
#include "shard/package.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const cut::BatchSchedule kSchedule = {{5, 0}, {22, 1, 3, 1}};

class ExportStageTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / fmt::format("paceline-export-{}", ::getpid());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  shard::Manifest make_package(const std::string& model) {
    NoProgress progress;
    const auto report = compile_package(fs::path(PACELINE_SOURCE_DIR "/tests/tiny_models") / model,
                                        package(), CompileOptions(), progress);
    EXPECT_TRUE(report) << report.error().message();
    return report ? report->manifest : shard::Manifest();
  }
  fs::path package() const { return root_ / "package"; }
  fs::path stage(LayerRange range) const {
    return root_ / fmt::format("stage-{}-{}", range.begin, range.end);
  }
  Result<ExportReport> run(LayerRange range) {
    NoProgress progress;
    return export_stage(package(), stage(range), {range, 1}, progress);
  }
  std::set<std::string> entries() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) names.insert(entry.path().filename());
    return names;
  }
  static std::set<std::string> inputs(const ov::Model& model) {
    std::set<std::string> names;
    for (const auto& input : model.inputs()) names.insert(input.get_any_name());
    return names;
  }

  fs::path root_;
};

class ExportedChainTest : public ExportStageTest,
                          public testing::WithParamInterface<std::string> {};

TEST_P(ExportedChainTest, AChainReadByPlainOpenVinoEqualsTheWholeModel) {
  const auto manifest = make_package(GetParam());
  ov::Core core;
  const auto whole = core.read_model((package() / "openvino_model.xml").string());
  const auto data = cut::random_data(*whole, kSchedule, manifest.vocabulary_size, 3).value();
  const auto expected =
      cut::run_stateful(core, whole, cut::exact_properties(1), kSchedule, data).value();
  for (const std::uint32_t stages : {2U, 4U}) {
    std::vector<std::shared_ptr<ov::Model>> chain;
    for (const LayerRange range : cut::split_evenly(manifest.layers, stages)) {
      const auto report = run(range);
      ASSERT_TRUE(report) << report.error().message();
      EXPECT_EQ(report->weight_bytes, fs::file_size(stage(range) / "openvino_model.bin"));
      EXPECT_GE(report->weight_bytes, manifest.bytes_of(range) / 2);
      EXPECT_LE(report->weight_bytes, manifest.bytes_of(range) + 64 * 1024);
      chain.push_back(core.read_model((stage(range) / "openvino_model.xml").string()));
      EXPECT_EQ(inputs(*chain.back()).contains("input_ids"), range.begin == 0);
      EXPECT_EQ(inputs(*chain.back()).contains(cut::kBoundaryInput), range.begin > 0);
      EXPECT_EQ(chain.back()->get_rt_info<std::string>("paceline", "package_digest"),
                manifest.digest);
      EXPECT_EQ(chain.back()->get_rt_info<std::string>("paceline", "end_layer"),
                std::to_string(range.end));
    }
    const auto actual = cut::run_chain(core, chain, kSchedule, data);
    ASSERT_TRUE(actual) << actual.error().message();
    EXPECT_EQ(cut::largest_difference(kSchedule, expected, *actual).value(), 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Some, ExportedChainTest,
                         testing::Values("llama_tied", "gemma3", "qwen3_moe", "bloom", "phi3",
                                         "gpt_oss"),
                         [](const auto& info) { return info.param; });

TEST_F(ExportStageTest, ASparsePackageGivesItsRangeAndNoOther) {
  make_package("qwen3");
  const fs::path full = package();
  ASSERT_TRUE(shard::copy_range(full, root_ / "sparse", {2, 4}));
  NoProgress progress;
  const auto report = export_stage(root_ / "sparse", stage({2, 4}), {{2, 4}, 2}, progress);
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_TRUE(export_stage(full, stage({0, 4}), {{2, 4}, 1}, progress));
  for (const char* name : {"openvino_model.xml", "openvino_model.bin"}) {
    std::ifstream a(stage({2, 4}) / name), b(stage({0, 4}) / name);
    const std::string first{std::istreambuf_iterator<char>(a), {}};
    EXPECT_EQ(first, (std::string{std::istreambuf_iterator<char>(b), {}})) << name;
    EXPECT_FALSE(first.empty());
  }
  const auto other = export_stage(root_ / "sparse", stage({1, 3}), {{1, 3}, 1}, progress);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(other.error().message(), HasSubstr("openvino_model.bin: extent"));
}

TEST_F(ExportStageTest, WhatCannotBeLeavesNothing) {
  make_package("llama_tied");
  const auto refused = run({2, 9});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  fs::create_directories(stage({0, 2}));
  EXPECT_EQ(run({0, 2}).error().code(), ErrorCode::kAlreadyExists);
  fs::remove(stage({0, 2}));

  class Impatient final : public Progress {
   public:
    bool update(std::string_view phase, std::uint64_t, std::uint64_t) override {
      return phase != "weights";
    }
  } impatient;
  const auto interrupted = export_stage(package(), stage({0, 2}), {{0, 2}, 1}, impatient);
  ASSERT_FALSE(interrupted);
  EXPECT_EQ(interrupted.error().code(), ErrorCode::kCancelled);

  // The package's files are links of the source's: a copy is changed.
  const fs::path graph = package() / "openvino_model.xml";
  fs::copy_file(graph, root_ / "copy");
  fs::rename(root_ / "copy", graph);
  std::fstream file(graph, std::ios::in | std::ios::out);
  file.seekp(300);
  file.put('~');
  file.close();
  const auto damaged = run({0, 2});
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code(), ErrorCode::kDataLoss);
  EXPECT_EQ(entries(), std::set<std::string>{"package"});
}

}  // namespace
}  // namespace paceline::compiler
