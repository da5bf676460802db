// Executes the steps of one stage: keeps its sequences, runs the engine, samples in the last stage.
//
// Knows no connections and no threads: the worker feeds it from its engine thread. A step is
// executed or it fails; a failed step leaves the sequences as they were.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/link_precision.h"
#include "engine/stage_engine.h"
#include "sampling/candidates.h"
#include "wire/messages.h"
#include "worker/row_sampler.h"

namespace paceline::worker {

/// What a step gives: boundary tensors for the next stage, or samples from the last one.
struct StepProduct {
  std::vector<wire::Tensor> boundaries;
  std::vector<wire::Sample> samples;
};

/// Thread-compatible.
class StageExecutor {
 public:
  /// A peer that opens sequences and frees none is stopped here.
  static constexpr std::size_t kMaxOpenSequences = 1U << 16;
  /// The same for those whose rows are summed: a sum takes as much as a row of f64.
  static constexpr std::size_t kMaxSums = 4096;

  /// In `link_precision` boundary tensors come and go; the engine knows only its own.
  explicit StageExecutor(std::unique_ptr<engine::StageEngine> engine,
                         LinkPrecision link_precision = LinkPrecision::kNative);

  const engine::StageInfo& info() const { return engine_->info(); }
  std::size_t open_sequences() const { return sequences_.size(); }

  /// `tensors` are the frame's: the boundary of the stage before; none for the first stage.
  /// A sequence begins at the past of its first rows: where that is not 0 and it forks from nobody,
  /// its blocks hold the KV of others' tokens. Freeing an unknown one is no error, since a step
  /// that failed in a later stage may have opened it. kFailedPrecondition: a sequence is unknown,
  /// or its past is not what this stage holds. kInvalidArgument: sizes, blocks or sampling do not
  /// fit. kUnimplemented: a token reference to a result that was sampled elsewhere, or several KV
  /// groups. kResourceExhausted: too many sequences, sums or means.
  Result<StepProduct> execute(StepId id, const wire::Step& step,
                              std::span<const wire::Tensor> tensors);

 private:
  struct Sequence {
    std::uint32_t tokens = 0;  ///< in the KV cache
    bool begins = false;       ///< opened in the step at hand
    SampledSequence sampled;
  };
  using Sequences = std::map<SequenceId, Sequence>;

  Result<std::vector<wire::Tensor>> native_of(std::span<const wire::Tensor> tensors) const;
  Result<std::vector<wire::Tensor>> boundary_tensors(const engine::StageOutput& output,
                                                     std::uint64_t rows) const;

  Status open_sequences(const wire::Step& step, Sequences& sequences);
  Result<SampledSequence> sampled_sequence(const wire::SequenceSpec& spec);
  static Status apply(const wire::StepSequence& entry, Sequences& sequences);
  Result<Sequences> apply_operations(const wire::Step& step);
  Result<engine::StageBatch> make_batch(const wire::Step& step, const Sequences& sequences,
                                        std::span<const wire::Tensor> tensors) const;
  Status append_tokens(const wire::StepSequence& sequence, engine::StageBatch& batch) const;
  Result<bool> check_sums(const wire::Step& step, const Sequences& sequences) const;
  void sum_rows(const wire::Step& step, Sequences& sequences, std::span<const float> final_rows,
                std::vector<wire::Sample>& samples) const;
  Result<std::vector<wire::Sample>> sample_rows(const wire::Step& step, Sequences& sequences,
                                                std::span<const float> logits);
  void forget_failed_grammars(const std::vector<wire::Sample>& samples, const Sequences& sequences);
  void remember(StepId id, const std::vector<wire::Sample>& samples);

  std::unique_ptr<engine::StageEngine> engine_;
  const LinkPrecision link_precision_;
  Sequences sequences_;
  GrammarStore grammars_;
  sampling::Workspace workspace_;
  /// Samples of recent steps, which token references of later ones may name.
  std::deque<std::pair<StepId, std::vector<wire::Sample>>> recent_;
};

}  // namespace paceline::worker
