// For tests of the weight writer: a .bin in a directory of its own, and matrices of many blocks.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "compiler/memory_source_testing.h"
#include "compiler/weight_writer.h"
#include "model/gguf.h"

namespace paceline::compiler {

class WeightWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::temp_directory_path() / fmt::format("paceline-weights-{}", ::getpid());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path bin_path() const { return directory_ / "w.bin"; }
  Result<StoredWeights> write(const model::GgufFile& file, Progress& progress) {
    PACELINE_ASSIGN_OR_RETURN(const auto config, file.decoder_config());
    PACELINE_ASSIGN_OR_RETURN(const auto plan, plan_tensors(file, config));
    PACELINE_ASSIGN_OR_RETURN(BinFile bin, BinFile::create(bin_path()));
    return write_weights(file, plan, bin, progress);
  }

  std::filesystem::path directory_;
  NoProgress quiet_;
};

inline std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Matrices of several blocks in every form, with an odd number of groups in a row.
class ManyBlocksTest : public WeightWriterTest {
 protected:
  void SetUp() override {
    WeightWriterTest::SetUp();
    source_.add_random("table", model::TensorType::kBF16, {6001, 576}, 1);
    source_.add_random("norm", model::TensorType::kF32, {576}, 2);
    source_.add_random("query", model::TensorType::kF16, {2048, 576}, 3);
    source_.add_random("stack", model::TensorType::kBF16, {3, 1001, 576}, 4);
    source_.add_random("kept", model::TensorType::kQ4_1, {9001, 576}, 5);
    plan_.tensors = {source_.whole("model.embed_tokens.weight", "table"),
                     source_.whole("model.layers.0.input_layernorm.weight", "norm"),
                     source_.whole("model.layers.0.self_attn.q_proj.weight", "query", {64, 64}),
                     source_.whole("model.layers.0.mlp.experts.up_proj.weight", "stack"),
                     source_.whole("lm_head.weight", "kept")};
    options_.weights.weights = WeightKind::kInt4Asymmetric;
    options_.weights.head = WeightKind::kKeep;
  }
  Result<StoredWeights> write(const WriteOptions& options, Progress& progress) {
    PACELINE_ASSIGN_OR_RETURN(BinFile bin, BinFile::open(bin_path()));
    return write_weights(source_, plan_, bin, progress, options);
  }
  WriteOptions resumable() const {
    WriteOptions options = options_;
    options.journal = directory_ / "journal";
    return options;
  }

  MemorySource source_;
  TensorPlan plan_;
  WriteOptions options_;
};

}  // namespace paceline::compiler
