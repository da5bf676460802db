#include "compiler/weight_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "compiler/decoded_weights.h"
#include "compiler/small_llama.h"
#include "compiler/weight_binder.h"
#include "model/dequantize.h"
#include "system/memory.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using model::TensorType;

class WeightWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / fmt::format("paceline-weights-{}", ::getpid());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path bin_path() const { return directory_ / "w.bin"; }
  Result<StoredWeights> write(const model::GgufFile& file, Progress& progress) {
    PACELINE_ASSIGN_OR_RETURN(const auto config, file.decoder_config());
    PACELINE_ASSIGN_OR_RETURN(const auto plan, plan_llama_tensors(file, config));
    PACELINE_ASSIGN_OR_RETURN(BinFile bin, BinFile::create(bin_path()));
    return write_weights(file, plan, bin, progress);
  }

  fs::path directory_;
  NoProgress quiet_;
};

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
    if (weight.encoding.has_zero_points) add(weight.zero_points);
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
  if (weight.encoding.has_zero_points) matrix.zero_points = halves(weight.zero_points);
  return decoded(matrix, elements);
}

TEST_F(WeightWriterTest, RowsAreWrittenInTheirNewOrderOverManyBlocks) {
  // 8192 x 1024 i8 values are two blocks of 4 MB.
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
  std::vector<float> stored(8192 * 1024);
  model::dequantize(tensor.type, file->bytes(tensor), stored);
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
  constexpr std::uint64_t kLimit = 12U << 20;
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

TEST_F(WeightWriterTest, TheBinderSharesATiedMatrixAndCopiesNothing) {
  const auto file = open_small_llama({.type = TensorType::kQ4_1});
  auto weights = write(*file, quiet_);
  ASSERT_TRUE(weights);
  auto mapped = system::MappedFile::open(bin_path());
  ASSERT_TRUE(mapped);
  const std::byte* begin = mapped->bytes().data();
  const std::byte* end = begin + mapped->bytes().size();
  WeightBinder binder(std::move(*weights), std::move(*mapped));
  const auto table = binder.matrix("model.embed_tokens.weight");
  EXPECT_EQ(table, binder.matrix("model.embed_tokens.weight"));
  EXPECT_EQ(table.get_partial_shape(), (ov::PartialShape{48, 256}));
  const auto query = binder.matrix("model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(query.get_element_type(), ov::element::f32);
  EXPECT_EQ(binder.offsets().size(), 4U);  // the table; values, scale, zero point
  const auto norm = binder.vector("model.norm.weight");
  EXPECT_EQ(norm.get_partial_shape(), (ov::PartialShape{1, 1, 256}));
  const auto constant = ov::as_type_ptr<ov::op::v0::Constant>(norm.get_node_shared_ptr());
  const auto* data = static_cast<const std::byte*>(constant->get_data_ptr());
  EXPECT_TRUE(data >= begin && data < end);
}

}  // namespace
}  // namespace paceline::compiler
