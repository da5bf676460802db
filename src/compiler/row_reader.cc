#include "compiler/row_reader.h"

#include <cstring>

#include "base/check.h"
#include "compiler/quantize.h"
#include "model/dequantize.h"
#include "model/foreign_text.h"
#include "model/quantized_block.h"

namespace paceline::compiler {
namespace {

using model::TensorInfo;
using model::TensorType;

std::uint64_t count_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t dimension : shape) count *= dimension;
  return count;
}

Result<std::vector<float>> read_floats(const model::TensorSource& source,
                                       const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.size_bytes);
  PACELINE_RETURN_IF_ERROR(source.read(tensor, 0, bytes));
  std::vector<float> values(tensor.size_bytes / model::block_bytes(tensor.type) *
                            model::block_elements(tensor.type));
  model::dequantize(tensor.type, bytes, values);
  return values;
}

std::uint64_t blocks_of(std::uint64_t length, std::uint64_t block) {
  return block == 0 ? 0 : (length + block - 1) / block;
}

void widen(TensorType type, std::span<const std::byte> bytes, std::span<float> values) {
  if (type == TensorType::kF16) return widen_half(bytes.data(), values);
  if (type == TensorType::kBF16) return widen_bfloat(bytes.data(), values);
  model::dequantize(type, bytes, values);
}

}  // namespace

Result<RowReader> RowReader::create(const model::TensorSource& source, const PlannedTensor& tensor,
                                    RowsAndColumns shape, RowsAndColumns fp8_block) {
  RowReader reader(source, tensor);
  reader.shape_ = shape;
  const TensorType type = tensor.pieces[0].source->type;
  std::uint64_t piece_rows = 0;
  for (const TensorPiece& piece : tensor.pieces) {
    if (piece.source->type != type) {
      return fail(ErrorCode::kUnimplemented,
                  "tensor {}: is {}, expected {} as {} of the same matrix",
                  model::in_quotes(piece.source->name), model::to_string(piece.source->type),
                  model::to_string(type), model::in_quotes(tensor.pieces[0].source->name));
    }
    piece_rows += piece.rows;
    PACELINE_RETURN_IF_ERROR(reader.add_factors(piece, fp8_block));
  }
  const bool in_blocks = model::is_quantized(type);
  // A vector in blocks is one row, so it cannot be joined of parts.
  PACELINE_CHECK(in_blocks && tensor.shape.size() == 1 ? tensor.pieces.size() == 1
                                                       : piece_rows == shape.rows);
  reader.row_bytes_ = shape.columns / model::block_elements(type) * model::block_bytes(type);
  return reader;
}

Status RowReader::add_factors(const TensorPiece& piece, RowsAndColumns fp8_block) {
  Factors& factors = factors_.emplace_back();
  if (piece.scale == nullptr) return {};
  const TensorInfo& scale = *piece.scale;
  const std::uint64_t rows = count_of(piece.source->shape) / shape_.columns;
  const std::uint64_t count = count_of(scale.shape);
  const std::uint64_t down = blocks_of(rows, fp8_block.rows);
  const std::uint64_t across = blocks_of(shape_.columns, fp8_block.columns);
  factors.block_columns = shape_.columns;
  // Blocks first: 128 x 128 of them are as many as the rows of 128 * 128 columns.
  if (scale.shape == std::vector<std::uint64_t>{down, across}) {
    factors.block_rows = fp8_block.rows;
    factors.block_columns = fp8_block.columns;
    factors.across = across;
  } else if (count == 1) {
    factors.block_rows = rows;
  } else if (count == rows) {
    factors.block_rows = 1;
  } else {
    return fail(ErrorCode::kDataLoss,
                "tensor {}: has the shape {}, expected one factor, {} or {} x {} of them",
                model::in_quotes(scale.name), fmt::join(scale.shape, " x "), rows, down, across);
  }
  PACELINE_ASSIGN_OR_RETURN(factors.values, read_floats(*source_, scale));
  return {};
}

RowReader::Place RowReader::place(std::uint64_t row) const {
  row = tensor_->order.source_row(row);
  for (std::size_t i = 0;; ++i) {
    PACELINE_CHECK(i < tensor_->pieces.size());
    const TensorPiece& piece = tensor_->pieces[i];
    if (row < piece.rows) return {i, piece.first_row + row};
    row -= piece.rows;
  }
}

Status RowReader::read(std::uint64_t first, std::span<std::byte> rows) const {
  const std::uint64_t end = first + rows.size() / row_bytes_;
  while (first < end) {
    // As many rows as lie side by side in the source too.
    const Place begin = place(first);
    std::uint64_t count = 1;
    for (; first + count < end; ++count) {
      const Place next = place(first + count);
      if (next.piece != begin.piece || next.row != begin.row + count) break;
    }
    const auto part = rows.first(count * row_bytes_);
    PACELINE_RETURN_IF_ERROR(
        source_->read(*tensor_->pieces[begin.piece].source, begin.row * row_bytes_, part));
    rows = rows.subspan(part.size());
    first += count;
  }
  return {};
}

void RowReader::to_floats(std::uint64_t first, std::span<const std::byte> rows,
                          std::span<float> values) const {
  widen(tensor_->pieces[0].source->type, rows, values);
  for (std::uint64_t i = 0; i * shape_.columns < values.size(); ++i) {
    const Place at = place(first + i);
    const Factors& factors = factors_[at.piece];
    if (factors.values.empty()) continue;
    const float* const line = factors.values.data() + at.row / factors.block_rows * factors.across;
    float* const row = values.data() + i * shape_.columns;
    for (std::uint64_t column = 0; column < shape_.columns; ++column) {
      row[column] *= line[column / factors.block_columns];
    }
  }
}

}  // namespace paceline::compiler
