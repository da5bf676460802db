// Where every tensor of a plan will lie in the .bin, in which form, and in which blocks of rows it
// is converted. Known before the first weight is read, so the size is too.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "compiler/bin_file.h"
#include "compiler/row_reader.h"
#include "compiler/stored_weight.h"
#include "compiler/tensor_plan.h"
#include "compiler/weight_options.h"

namespace paceline::compiler {

/// Bytes of a block, of the source or of the result, whichever is more; a row at least.
inline constexpr std::uint64_t kBlockBytes = 2U << 20;

struct WeightJob {
  const PlannedTensor* tensor;
  RowReader reader;
  StoredWeight weight;
  std::uint64_t block_rows;   ///< even, so that u4 zero points of a block begin at a byte
  std::uint64_t first_block;  ///< in the numbering of all
};

/// Rows [begin, end) of a job.
struct WeightBlock {
  std::size_t job;
  std::uint64_t begin;
  std::uint64_t end;
};

struct WeightLayout {
  std::vector<WeightJob> jobs;  ///< in the order of the plan, as in the .bin
  std::uint64_t blocks = 0;
  std::uint64_t source_bytes = 0;

  WeightBlock block(std::uint64_t index) const;
  /// Bytes of the source and of the result that the largest block needs.
  std::uint64_t largest_block_bytes() const;
  /// All that decides the bytes of the .bin but for the weights themselves.
  std::string describe() const;
};

struct LayoutOptions {
  WeightOptions weights;  ///< resolved
  RowsAndColumns fp8_block;
  /// Tensors that are f32 whatever the options, because their scales do not fit.
  std::set<std::string> plain = {};
};

/// Reserves the regions in `bin`. Keeps pointers to `source` and `plan`.
Result<WeightLayout> lay_out_weights(const model::TensorSource& source, const TensorPlan& plan,
                                     const LayoutOptions& options, BinFile& bin);

/// What the user should know: columns that the wanted group does not divide, and what was done.
std::vector<std::string> remarks_on(const WeightLayout& layout, const WeightOptions& options);

}  // namespace paceline::compiler
