// One stage on one device: rows of a step in, boundary tensors or logits out.
//
// Engine-neutral: a step names sequences, past lengths, new rows and logical blocks; each engine
// translates them to its own addressing (paged block tables, or one state; NPU slots later).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/element_type.h"
#include "base/engine_kind.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/profile.h"

namespace paceline::engine {

/// A named tensor that crosses a stage boundary; axis 0 is the step's rows.
struct BoundarySpec {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<std::uint64_t> row_shape;  ///< the shape of one row, e.g. [hidden]
  std::uint64_t row_bytes() const;
  friend bool operator==(const BoundarySpec&, const BoundarySpec&) = default;
};

/// The rows that one sequence has in a step.
struct SequenceRows {
  SequenceId sequence;
  std::uint32_t past_tokens = 0;  ///< tokens already in the KV cache
  std::uint32_t new_tokens = 0;   ///< rows of this step, at positions past_tokens...
  /// Logical blocks in order; at least as many as past + new tokens need.
  std::vector<BlockId> blocks;
  /// Of this sequence's rows, those whose logits are wanted; ascending.
  std::vector<std::uint32_t> sampled_rows;
};

/// Copies a logical block's KV before the step's rows are computed (copy on write).
struct BlockCopy {
  BlockId from;
  BlockId to;
};

struct StageBatch {
  std::vector<BlockCopy> copies;
  std::vector<SequenceRows> sequences;
  std::vector<std::int64_t> tokens;  ///< one per row; only the first stage reads them
  /// Boundary inputs of stages after the first, in input_boundary order: rows x row_bytes.
  std::vector<std::span<const std::byte>> boundaries;
  /// Sequences that end before the rows are computed. Of use to engines that keep KV by sequence.
  std::vector<SequenceId> freed;
  bool wants_final_rows = false;  ///< of a stage whose final_width is not 0

  std::size_t rows() const;
};

/// Views into the engine's own memory, valid until its next run().
struct StageOutput {
  std::vector<std::span<const std::byte>> boundaries;  ///< in output_boundary order
  /// Last stage: f32 logits, one row of vocabulary_size per sampled row, in the batch's order.
  std::span<const float> logits;
  /// What the head reads of a row, final_width values of each of the batch's rows in their order.
  /// Empty where they were not wanted.
  std::span<const float> final_rows;
};

struct StageOptions {
  std::filesystem::path package;
  LayerRange layers;
  Profile profile = Profile::kFast;
  std::uint32_t threads = 0;    ///< 0: the device's choice
  std::uint32_t kv_blocks = 0;  ///< logical blocks of KV to hold
  std::uint32_t logical_block_tokens = 32;
  std::uint32_t context_tokens = 0;  ///< the longest sequence; 0: as long as its blocks allow
};

struct StageInfo {
  EngineKind engine = EngineKind::kPaged;
  std::uint32_t max_sequences = 0;  ///< that it holds at a time; 0: as many as have blocks
  /// Whether sequences may share KV: prefixes, forks, copies of blocks. Else each begins at 0.
  bool shares_kv = true;
  LayerRange layers;
  bool is_first = false;
  bool is_last = false;
  std::uint64_t vocabulary_size = 0;          ///< last stage only
  std::uint64_t final_width = 0;              ///< of StageOutput::final_rows; 0: it gives none
  std::uint64_t weight_bytes = 0;             ///< of the package's constants that this stage reads
  std::uint64_t kv_bytes = 0;                 ///< of all its KV blocks
  std::string form = "compiled";              ///< or "imported", from the cache of forms
  Duration compile_time = {};                 ///< reading, cutting and compiling or importing
  std::filesystem::path tokenizer;            ///< of the package; last stage only, else empty
  std::vector<BoundarySpec> input_boundary;   ///< empty for the first stage
  std::vector<BoundarySpec> output_boundary;  ///< empty for the last stage
};

/// Thread-compatible: one run() at a time.
class StageEngine {
 public:
  virtual ~StageEngine() = default;
  virtual const StageInfo& info() const = 0;
  /// Bad batches (unknown blocks, wrong sizes) give kInvalidArgument and change nothing. So do
  /// sequences that the engine does not hold, or cannot: kFailedPrecondition.
  virtual Result<StageOutput> run(const StageBatch& batch) = 0;
  /// The sequences end, and no rows are to be computed. Nothing for an engine that knows blocks.
  virtual void forget(std::span<const SequenceId> /*freed*/) {}
};

}  // namespace paceline::engine
