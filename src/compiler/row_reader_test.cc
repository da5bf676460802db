#include "compiler/row_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/memory_source_testing.h"

namespace paceline::compiler {
namespace {

using model::TensorType;
using testing::HasSubstr;

/// Rows [first, first + count) as floats.
std::vector<float> rows_of(const RowReader& reader, std::uint64_t first, std::uint64_t count,
                           std::uint64_t columns) {
  std::vector<std::byte> bytes(count * reader.row_bytes());
  EXPECT_TRUE(reader.read(first, bytes));
  std::vector<float> values(count * columns);
  reader.to_floats(first, bytes, values);
  return values;
}

std::vector<float> expected_rows(const std::vector<float>& all, std::uint64_t columns,
                                 const std::vector<std::uint64_t>& rows) {
  std::vector<float> result;
  for (const std::uint64_t row : rows) {
    result.insert(result.end(), all.begin() + row * columns, all.begin() + (row + 1) * columns);
  }
  return result;
}

TEST(RowReaderTest, EveryTypeIsReadFromAnyRow) {
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16,
                                TensorType::kQ4_0, TensorType::kQ5_K}) {
    MemorySource source;
    source.add_random("w", type, {10, 256});
    const PlannedTensor tensor = source.whole("w", "w");
    const auto reader = RowReader::create(source, tensor, {10, 256});
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_EQ(reader->source_bytes(), source.tensors()[0].size_bytes);
    EXPECT_EQ(rows_of(*reader, 3, 4, 256), expected_rows(source.values_of("w"), 256, {3, 4, 5, 6}))
        << model::to_string(type);
  }
}

TEST(RowReaderTest, RowsOfHeadsComeInTheirNewOrder) {
  MemorySource source;
  source.add_random("w", TensorType::kF16, {16, 32});
  const PlannedTensor tensor = source.whole("w", "w", {8, 8});
  const auto reader = RowReader::create(source, tensor, {16, 32});
  ASSERT_TRUE(reader);
  EXPECT_EQ(rows_of(*reader, 6, 5, 32),
            expected_rows(source.values_of("w"), 32, {5, 7, 8, 10, 12}));
}

TEST(RowReaderTest, PiecesLieOneBelowTheOther) {
  MemorySource source;
  source.add_random("a", TensorType::kF32, {6, 32}, 1);
  source.add_random("b", TensorType::kF32, {4, 32}, 2);
  const PlannedTensor tensor = {
      "w", {5, 32}, {{source.find("b").value(), 1, 2}, {source.find("a").value(), 3, 3}}};
  const auto reader = RowReader::create(source, tensor, {5, 32});
  ASSERT_TRUE(reader);
  auto expected = expected_rows(source.values_of("b"), 32, {1, 2});
  const auto below = expected_rows(source.values_of("a"), 32, {3, 4, 5});
  expected.insert(expected.end(), below.begin(), below.end());
  EXPECT_EQ(rows_of(*reader, 0, 5, 32), expected);
  EXPECT_EQ(rows_of(*reader, 2, 1, 32), expected_rows(expected, 32, {2}));
}

TEST(RowReaderTest, ElementsOfAVectorAreRowsOfOne) {
  MemorySource source;
  source.add_random("bias", TensorType::kF32, {12});
  const PlannedTensor tensor = {"b", {4}, {{source.find("bias").value(), 5, 4}}};
  const auto reader = RowReader::create(source, tensor, {4, 1});
  ASSERT_TRUE(reader);
  EXPECT_EQ(rows_of(*reader, 0, 4, 1), expected_rows(source.values_of("bias"), 1, {5, 6, 7, 8}));
}

TEST(RowReaderTest, PiecesOfSeveralTypesAreRefused) {
  MemorySource source;
  source.add_random("a", TensorType::kF32, {6, 32});
  source.add_random("b", TensorType::kF16, {4, 32});
  const PlannedTensor tensor = {
      "w", {10, 32}, {{source.find("a").value(), 0, 6}, {source.find("b").value(), 0, 4}}};
  const auto reader = RowReader::create(source, tensor, {10, 32});
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(reader.error().message(), HasSubstr("\"b\": is F16, expected F32"));
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// 300 x 260 ones of FP8 under scales, of which rows 130 ... 299 are read.
Result<std::vector<float>> scaled_ones(std::vector<std::uint64_t> shape,
                                       const std::vector<float>& scales) {
  MemorySource source;
  source.add("w", TensorType::kF8_E4M3, {300, 260}, std::string(300 * 260, '\x38'));
  source.add("s", TensorType::kF32, std::move(shape), floats(scales));
  const PlannedTensor tensor = {
      "w", {170, 260}, {{source.find("w").value(), 130, 170, source.find("s").value()}}};
  PACELINE_ASSIGN_OR_RETURN(const auto reader,
                            RowReader::create(source, tensor, {170, 260}, {128, 64}));
  return rows_of(reader, 0, 170, 260);
}

TEST(RowReaderTest, ScalesOfFp8AreForAllForRowsOrForBlocks) {
  EXPECT_EQ(scaled_ones({}, {0.5F}).value(), std::vector<float>(170 * 260, 0.5F));
  EXPECT_EQ(scaled_ones({1}, {0.25F}).value(), std::vector<float>(170 * 260, 0.25F));
  std::vector<float> by_row(300);
  for (std::size_t i = 0; i < by_row.size(); ++i) by_row[i] = static_cast<float>(i);
  for (const auto& shape : {std::vector<std::uint64_t>{300, 1}, std::vector<std::uint64_t>{300}}) {
    const auto values = scaled_ones(shape, by_row).value();
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], static_cast<float>(130 + i / 260));
    }
  }
  std::vector<float> by_block(15);
  for (std::size_t i = 0; i < by_block.size(); ++i) by_block[i] = static_cast<float>(i);
  const auto values = scaled_ones({3, 5}, by_block).value();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = 130 + i / 260;
    const std::size_t column = i % 260;
    ASSERT_EQ(values[i], static_cast<float>(row / 128 * 5 + column / 64)) << i;
  }
}

/// As many blocks as rows, which are not the rows' scales.
TEST(RowReaderTest, AsManyBlocksAsRows) {
  MemorySource source;
  source.add("w", TensorType::kF8_E4M3, {4, 8}, std::string(32, '\x38'));
  source.add("s", TensorType::kF32, {2, 2}, floats({1, 2, 3, 4}));
  const PlannedTensor tensor = {
      "w", {4, 8}, {{source.find("w").value(), 0, 4, source.find("s").value()}}};
  const auto reader = RowReader::create(source, tensor, {4, 8}, {2, 4}).value();
  EXPECT_EQ(rows_of(reader, 1, 2, 8),
            (std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4}));
}

TEST(RowReaderTest, ScalesOfAnotherShapeAreRefused) {
  const auto refused = scaled_ones({2, 3}, {0, 1, 2, 3, 4, 5});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kDataLoss);
  EXPECT_THAT(refused.error().message(), HasSubstr("has the shape 2 x 3"));
}

}  // namespace
}  // namespace paceline::compiler
