#include "compiler/weight_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "compiler/decoded_weights.h"
#include "compiler/small_llama.h"
#include "compiler/weight_writer_testing.h"
#include "model/tensor_testing.h"
#include "system/memory.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using model::TensorType;

TEST_F(WeightWriterTest, RegionsAreAlignedApartAndInTheOrderOfTheLayers) {
  const auto file = open_small_llama({.type = TensorType::kQ4_1, .table_type = TensorType::kQ8_0});
  const auto weights = write(*file, quiet_);
  ASSERT_TRUE(weights) << weights.error().message();
  std::vector<std::pair<std::uint64_t, std::uint64_t>> regions;
  const auto add = [&](const StoredConstant& constant) {
    const std::uint64_t bytes = ov::shape_size(constant.shape) * constant.type.bitwidth() / 8;
    regions.emplace_back(constant.offset, constant.offset + bytes);
    EXPECT_EQ(constant.offset % 64, 0U);
  };
  for (const auto& [name, weight] : *weights) {
    add(weight.values);
    if (weight.encoding.group != 0) add(weight.scales);
    if (weight.encoding.zero_points != ZeroPoints::kNone) add(weight.zero_points);
  }
  std::sort(regions.begin(), regions.end());
  for (std::size_t i = 1; i < regions.size(); ++i) {
    EXPECT_GE(regions[i].first, regions[i - 1].second);
    EXPECT_LT(regions[i].first, regions[i - 1].second + 64);
  }
  EXPECT_EQ(fs::file_size(bin_path()), regions.back().second);
  const auto offset = [&](const std::string& name) { return weights->at(name).values.offset; };
  EXPECT_EQ(offset("model.embed_tokens.weight"), 0U);
  EXPECT_LT(offset("model.layers.0.mlp.down_proj.weight"),
            offset("model.layers.1.input_layernorm.weight"));
  EXPECT_EQ(weights->at("model.norm.weight").values.offset, regions.back().first);
}

/// The matrix `name` as its constants in the .bin have it.
std::vector<float> read_back(const StoredWeight& weight, std::span<const std::byte> bin) {
  const auto halves = [&](const StoredConstant& constant) {
    return std::span(reinterpret_cast<const std::uint16_t*>(bin.data() + constant.offset),
                     ov::shape_size(constant.shape));
  };
  const std::uint64_t elements = weight.encoding.rows * weight.encoding.columns;
  EncodedMatrix matrix = {
      weight.encoding.type,
      bin.subspan(weight.values.offset, weight.encoding.rows * weight.encoding.row_bytes()),
      halves(weight.scales),
      {}};
  if (weight.encoding.zero_points == ZeroPoints::kHalf) {
    matrix.zero_points = halves(weight.zero_points);
  }
  if (weight.encoding.zero_points == ZeroPoints::kNibble) {
    matrix.nibbles = bin.subspan(weight.zero_points.offset, weight.encoding.zero_point_bytes());
  }
  return decoded(matrix, elements);
}

TEST_F(WeightWriterTest, RowsAreWrittenInTheirNewOrderOverManyBlocks) {
  // 8192 x 1024 i8 values are four blocks and more.
  SmallLlama options = {.type = TensorType::kQ8_0, .layers = 1, .hidden = 1024};
  options.heads = 128;
  const auto file = open_small_llama(options);
  const auto weights = write(*file, quiet_);
  ASSERT_TRUE(weights) << weights.error().message();
  const auto mapped = system::MappedFile::open(bin_path());
  ASSERT_TRUE(mapped);
  const StoredWeight& weight = weights->at("model.layers.0.self_attn.q_proj.weight");
  const std::vector<float> actual = read_back(weight, mapped->bytes());
  const model::TensorInfo& tensor = *file->find("blk.0.attn_q.weight").value();
  const std::vector<float> stored = model::stored_values(*file, tensor);
  const RowOrder order = {64, 64};
  for (std::uint64_t row = 0; row < 8192; ++row) {
    const auto expected = std::span(stored).subspan(order.source_row(row) * 1024, 1024);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), actual.begin() + row * 1024)) << row;
  }
}

/// Notes the phases, the order of the figures and the memory meanwhile; stops after some calls.
class WatchingProgress final : public Progress {
 public:
  explicit WatchingProgress(int calls = 1 << 30) : calls_left_(calls) {}
  bool update(std::string_view phase, std::uint64_t done, std::uint64_t total) override {
    EXPECT_EQ(phase, "weights");
    EXPECT_GT(done, last_);
    EXPECT_LE(done, total);
    last_ = done;
    total_ = total;
    anonymous_bytes = std::max(anonymous_bytes, system::process_memory().value().anonymous_bytes);
    return --calls_left_ > 0;
  }
  bool is_complete() const { return last_ == total_; }
  std::uint64_t anonymous_bytes = 0;

 private:
  int calls_left_;
  std::uint64_t last_ = 0;
  std::uint64_t total_ = 0;
};

TEST_F(WeightWriterTest, ProgressReachesTheTotalAndCanCancel) {
  const auto file = open_small_llama({});
  WatchingProgress progress;
  ASSERT_TRUE(write(*file, progress));
  EXPECT_TRUE(progress.is_complete());
  WatchingProgress impatient(5);
  const auto cancelled = write(*file, impatient);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code(), ErrorCode::kCancelled);
}

TEST_F(WeightWriterTest, ALargeTensorStreamsThroughLittleMemory) {
  constexpr std::uint64_t kLimit = 8U << 20;
  const fs::path path = directory_ / "large.gguf";
  {
    SmallLlama options = {.table_type = TensorType::kQ8_0, .layers = 1};
    options.vocabulary = 120000;  // 33 MB
    const auto bytes = write_small_llama(options).finish();
    std::ofstream(path).write(reinterpret_cast<const char*>(bytes.data()),
                              static_cast<std::streamsize>(bytes.size()));
  }
  const auto file = model::GgufFile::open(path);
  ASSERT_TRUE(file) << file.error().message();
  const std::uint64_t before = system::process_memory().value().anonymous_bytes;
  WatchingProgress progress;
  ASSERT_TRUE(write(**file, progress));
  EXPECT_LT(progress.anonymous_bytes, before + kLimit);
}

TEST_F(ManyBlocksTest, JobsDoNotChangeTheBytes) {
  const auto alone = write(options_, quiet_);
  ASSERT_TRUE(alone) << alone.error().message();
  const std::string expected = content(bin_path());
  for (const std::uint32_t jobs : {2U, 3U, 16U}) {
    fs::remove(bin_path());
    options_.jobs = jobs;
    const auto together = write(options_, quiet_);
    ASSERT_TRUE(together) << together.error().message();
    EXPECT_TRUE(content(bin_path()) == expected) << jobs;
    for (const auto& [name, weight] : *alone) {
      EXPECT_EQ(together->at(name).errors.error_squares, weight.errors.error_squares) << name;
    }
  }
}

TEST_F(ManyBlocksTest, WhatIsWrittenIsNearWhatWasRead) {
  options_.jobs = 2;
  const auto weights = write(options_, quiet_);
  ASSERT_TRUE(weights) << weights.error().message();
  const auto mapped = system::MappedFile::open(bin_path());
  const std::pair<const char*, const char*> kNames[] = {
      {"model.embed_tokens.weight", "table"},
      {"model.layers.0.mlp.experts.up_proj.weight", "stack"},
      {"lm_head.weight", "kept"}};
  for (const auto& [name, from] : kNames) {
    const StoredWeight& weight = weights->at(name);
    const std::vector<float> expected = source_.values_of(from);
    const std::vector<float> actual = read_back(weight, mapped->bytes());
    double squares = 0;
    double errors = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      squares += expected[i] * expected[i];
      errors += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    }
    EXPECT_LT(std::sqrt(errors / squares), 0.11) << name;
    if (!weight.encoding.quantized) continue;
    EXPECT_NEAR(weight.errors.relative(), std::sqrt(errors / squares), 1e-5) << name;
  }
  EXPECT_EQ(weights->at("lm_head.weight").errors.squares, 0.0) << "kept, and not asked for";
}

TEST_F(ManyBlocksTest, KeptTensorsAreMeasuredWhereAskedFor) {
  options_.measure = true;
  const auto weights = write(options_, quiet_);
  ASSERT_TRUE(weights) << weights.error().message();
  const ErrorSums& errors = weights->at("lm_head.weight").errors;
  EXPECT_GT(errors.relative(), 0.0);
  EXPECT_LT(errors.relative(), 1e-3);
}

TEST_F(ManyBlocksTest, LittleMemoryIsFewerThreadsAndTheSameBytes) {
  ASSERT_TRUE(write(options_, quiet_));
  const std::string expected = content(bin_path());
  options_.jobs = 8;
  options_.memory_bytes = 1;
  const std::uint64_t before = system::process_memory().value().anonymous_bytes;
  WatchingProgress progress;
  ASSERT_TRUE(write(options_, progress));
  EXPECT_LT(progress.anonymous_bytes, before + (8U << 20));
  EXPECT_TRUE(content(bin_path()) == expected);
}

TEST_F(ManyBlocksTest, ScalesThatDoNotFitMakeOneTensorF32) {
  const std::uint16_t huge = model::float_to_half(60000.0F);
  MemorySource source;
  source.add_random("good", TensorType::kQ6_K, {64, 256}, 1);
  source.add_random("bad", TensorType::kQ6_K, {64, 256}, 2);
  std::memcpy(source.bytes_of(source.tensors()[1]).data() + 5 * 210 + 208, &huge, 2);
  TensorPlan plan;
  plan.tensors = {source.whole("model.layers.0.a.weight", "good"),
                  source.whole("model.layers.0.b.weight", "bad")};
  BinFile bin = BinFile::create(bin_path()).value();
  const auto weights = write_weights(source, plan, bin, quiet_);
  ASSERT_TRUE(weights) << weights.error().message();
  EXPECT_EQ(weights->at("model.layers.0.a.weight").encoding.type, ov::element::i8);
  EXPECT_EQ(weights->at("model.layers.0.b.weight").encoding.type, ov::element::f32);
  const auto expected = source.values_of("bad");
  const std::string bytes = content(bin_path());
  const std::uint64_t offset = weights->at("model.layers.0.b.weight").values.offset;
  EXPECT_EQ(std::memcmp(bytes.data() + offset, expected.data(), 4 * expected.size()), 0);
}

TEST_F(WeightWriterTest, AValueTooLargeForItsFormIsNamed) {
  MemorySource source;
  source.add_random("w", TensorType::kF32, {4, 32}, 1);
  const float large = 1e6F;
  std::memcpy(source.bytes_of(source.tensors()[0]).data() + 4 * (2 * 32 + 5), &large, 4);
  TensorPlan plan;
  plan.tensors = {source.whole("model.layers.0.a.weight", "w")};
  BinFile bin = BinFile::create(bin_path()).value();
  WriteOptions options;
  options.weights.weights = WeightKind::kF16;
  const auto refused = write_weights(source, plan, bin, quiet_, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "memory: tensor \"w\": has a value of 1000000 in row 2, too large for f16; try "
            "--weights f32");
}

TEST_F(WeightWriterTest, TooLittleDiskIsSaidWithTheNumbers) {
  EXPECT_TRUE(check_free_space(bin_path(), 1));
  const Status refused = check_free_space(bin_path(), 1ULL << 60);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message().find("GB are free on its disk, expected 1152921504.61 GB"),
            std::string::npos)
      << refused.error().message();
}

TEST_F(WeightWriterTest, AFullDiskIsSaid) {
  BinFile full = BinFile::create("/dev/full").value();
  const std::vector<std::byte> bytes(100);
  const std::uint64_t offset = full.reserve(bytes.size());
  const Status written = full.write(offset, bytes);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(written.error().message(), "/dev/full: cannot write: No space left on device");
  EXPECT_FALSE(BinFile::create(directory_ / "none" / "w.bin"));
}

TEST_F(WeightWriterTest, AValueThatIsNotFiniteIsNamed) {
  auto writer = write_small_llama({});
  writer.tensors()[0].bytes.replace(3 * 1024, 4, model::GgufTestWriter::raw(std::nanf("")));
  const auto file = model::GgufFile::from_memory("small.gguf", writer.finish()).value();
  const auto refused = write(*file, quiet_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "small.gguf: tensor \"token_embd.weight\": has a value in row 3 that is not finite");
}

}  // namespace
}  // namespace paceline::compiler
