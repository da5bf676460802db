// Rows of a planned tensor, in the graph's order, out of the pieces of a source that hold them; as
// they are stored, or as floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "compiler/tensor_plan.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

struct RowsAndColumns {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
};

/// Lifecycle: create, then read. Thread-safe. Keeps pointers to source and plan.
class RowReader {
 public:
  /// `shape` as the tensor's encoding has it (elements of a vector are rows, unless they are stored
  /// in blocks), `fp8_block` as the configuration has it (0: none). Reads FP8 scales.
  /// kUnimplemented where the pieces are of several types; kDataLoss where a scale has another
  /// shape than its tensor asks for.
  static Result<RowReader> create(const model::TensorSource& source, const PlannedTensor& tensor,
                                  RowsAndColumns shape, RowsAndColumns fp8_block = {});

  /// Stored bytes of a row.
  std::uint64_t row_bytes() const { return row_bytes_; }
  std::uint64_t source_bytes() const { return shape_.rows * row_bytes_; }

  /// Stored rows [first, first + rows.size() / row_bytes()).
  Status read(std::uint64_t first, std::span<std::byte> rows) const;
  /// What stored rows from `first` on mean.
  void to_floats(std::uint64_t first, std::span<const std::byte> rows,
                 std::span<float> values) const;

 private:
  /// Factors of a piece's tensor, for blocks of rows and columns.
  struct Factors {
    std::vector<float> values;  ///< empty: all 1
    std::uint64_t block_rows = 1;
    std::uint64_t block_columns = 1;
    std::uint64_t across = 1;  ///< blocks side by side
  };
  /// A row of the tensor as a row of a piece's source.
  struct Place {
    std::size_t piece;
    std::uint64_t row;
  };

  RowReader(const model::TensorSource& source, const PlannedTensor& tensor)
      : source_(&source), tensor_(&tensor) {}
  Status add_factors(const TensorPiece& piece, RowsAndColumns fp8_block);
  Place place(std::uint64_t row) const;

  const model::TensorSource* source_;
  const PlannedTensor* tensor_;
  RowsAndColumns shape_;
  std::uint64_t row_bytes_ = 0;
  std::vector<Factors> factors_;  ///< by piece
};

}  // namespace paceline::compiler
