// From the logits of a step to its samples: rows that are sampled, scored or hold drafts.
//
// Part of StageExecutor in the last stage; docs/wire.md says which row is which.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "sampling/sequence_sampler.h"
#include "wire/messages.h"
#include "worker/answer_grammar.h"
#include "worker/row_sum.h"

namespace paceline::worker {

/// Of SampledSequence::failure.
inline constexpr std::size_t kMaxFailureBytes = 1024;

/// What a stage knows of a sequence for sampling. Copies share the sampler, since of two tables of
/// sequences one survives a step; what would change what the other sees makes a sampler of its own.
struct SampledSequence {
  bool wants_digest = false;
  /// A draft was rejected: until a Truncate the KV cache holds rows that never were.
  bool is_astray = false;
  /// The last sample, as drafts of the step after it see it.
  std::int64_t last_token = -1;
  std::uint64_t last_position = 0;
  std::shared_ptr<sampling::SequenceSampler> sampler;  ///< none where the stage is not the last
  /// None where the answer may be any text. Copies share it, as it follows the sampler's history.
  std::shared_ptr<AnswerGrammar> grammar;
  std::string failure;  ///< why its grammar gives no token more; empty where it does
  /// Where the mean of the prompt is wanted, and not given yet. Copies share it.
  std::shared_ptr<const RowSum> sum;

  /// Takes over the history where penalties need one and none was given.
  void fork_from(const SampledSequence& parent);
  /// `tokens` are left in the KV cache; the one sampled after them stays.
  void truncate(std::uint32_t tokens);
};

/// One step's samples. Thread-compatible; lives for one step.
class RowSampler {
 public:
  /// `logits`: `width` for each sampled row of the step, in order.
  RowSampler(std::span<const float> logits, std::size_t width, sampling::Workspace& workspace)
      : logits_(logits), width_(width), workspace_(workspace) {}

  /// All rows of one sequence. After an error: undo().
  Status add(const wire::StepSequence& entry, SampledSequence& sequence);
  /// The samplers are as before this step.
  void undo();
  std::vector<wire::Sample> take_samples() { return std::move(samples_); }

 private:
  /// Logits of the entry's sampled rows from the i-th on.
  std::span<const float> logits(std::size_t i, std::size_t rows) const {
    return logits_.subspan((next_logits_row_ + i) * width_, rows * width_);
  }
  Status add_row(const wire::StepSequence& entry, std::size_t index, SampledSequence& sequence);
  Status add_drafted(const wire::StepSequence& entry, SampledSequence& sequence);
  /// Whether the entry's first row, where it is a draft, holds the token sampled before it.
  static Result<bool> begins_right(const wire::StepSequence& entry,
                                   const SampledSequence& sequence);
  void push(const wire::StepSequence& entry, std::size_t index, const sampling::Sample& from,
            bool wants_digest);
  /// The sample of a row, or of the first of those with drafts, that has a failure and no token.
  Status push_failure(const wire::StepSequence& entry, std::size_t index, std::uint64_t position,
                      SampledSequence& sequence);

  std::span<const float> logits_;
  std::size_t width_;
  sampling::Workspace& workspace_;
  std::size_t next_logits_row_ = 0;
  std::uint32_t first_row_ = 0;  ///< of the sequence, in the step
  std::vector<wire::Sample> samples_;
  /// Whose histories may have grown, and where they ended before.
  std::vector<std::pair<sampling::SequenceSampler*, std::uint64_t>> accepted_;
};

}  // namespace paceline::worker
