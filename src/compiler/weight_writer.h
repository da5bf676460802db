// Streams the tensors of a plan, converted, into the .bin: some rows at a time, whatever their
// size, on several threads. Which thread does what has no influence on the bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "compiler/bin_file.h"
#include "compiler/progress.h"
#include "compiler/stored_weight.h"
#include "compiler/tensor_plan.h"
#include "compiler/weight_options.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

struct WriteOptions {
  WeightOptions weights = {};
  std::uint32_t jobs = 1;
  /// For all blocks under way; where it allows fewer threads than `jobs`, fewer are used.
  std::uint64_t memory_bytes = 256ULL << 20;
  bool measure = false;              ///< the errors of kept tensors too
  std::uint64_t fp8_block_rows = 0;  ///< as the configuration has them
  std::uint64_t fp8_block_columns = 0;
  /// Where finished blocks are noted, and looked up; empty: nowhere.
  std::filesystem::path journal = {};
  /// What the source is (files, sizes, times), so that a journal of another one is not continued.
  std::string source_identity = {};
};

/// Writes every tensor of `plan` to `bin`, in its order: values, scales, zero points. Memory is
/// that of the blocks under way. Vectors become f32. kResourceExhausted before anything is written
/// where the disk has too little room, with the numbers. Progress is told from the threads at
/// work, one at a time.
Result<StoredWeights> write_weights(const model::TensorSource& source, const TensorPlan& plan,
                                    BinFile& bin, Progress& progress,
                                    const WriteOptions& options = {});

/// kResourceExhausted, naming both numbers, where `needed` bytes are not free on the disk of
/// `path`.
Status check_free_space(const std::filesystem::path& path, std::uint64_t needed);

}  // namespace paceline::compiler
