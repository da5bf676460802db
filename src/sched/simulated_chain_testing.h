// A chain of stages in integers, for tests: what a row gives is a function of all tokens before it,
// through a KV memory in blocks in each stage, so that any block mixed up changes the tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "sched/step_plan.h"

namespace paceline::sched {

inline constexpr std::int64_t kSimulatedEnd = 0;

/// What the KV and the sampling of an answer depend on beside its tokens.
struct SimulatedText {
  std::uint64_t salt = 0;
  std::uint32_t choice = 0;
};

struct SimulatedModel {
  std::uint32_t stages = 2;
  std::uint32_t vocabulary = 50;  ///< token 0 is the end
  std::uint32_t end_every = 60;   ///< about one of so many tokens is the end

  /// The token after `text`, computed alone.
  std::int64_t next(std::span<const std::int64_t> text, const SimulatedText& of) const;
  /// The whole answer: up to `most` tokens or the end.
  std::vector<std::int64_t> answer(std::vector<std::int64_t> prompt, const SimulatedText& of,
                                   std::size_t most) const;
  std::int64_t sample(std::uint64_t hidden, const SimulatedText& of) const;
};

/// The stages' side of steps. A stage refuses what the real one refuses: unknown sequences, a past
/// that is not what it holds, two rows that write to one place.
class SimulatedChain {
 public:
  SimulatedChain(SimulatedModel model, std::uint32_t blocks, std::uint32_t block_tokens,
                 std::function<SimulatedText(ChoiceKey)> texts);

  /// Executes the step in the stages before `broken_stage`, or in all; what it sampled, drafts
  /// checked. An error where a stage refused it, or is broken: the stages before have executed it
  /// all the same.
  Result<std::vector<RowSample>> execute(const StepPlan& step,
                                         std::optional<std::uint32_t> broken_stage = {});

  /// Sequences open in any stage.
  std::size_t open_sequences() const;

 private:
  struct Stage {
    std::map<SequenceId, std::uint32_t> sequences;  ///< tokens held
    std::vector<std::vector<std::uint64_t>> memory;
  };

  Status apply_operations(Stage& stage, const StepPlan& step) const;
  Result<std::vector<std::uint64_t>> first_inputs(const StepPlan& step) const;
  Status write(Stage& stage, const StepPlan& step, std::span<const std::uint64_t> inputs) const;
  void sample(const StepPlan& step, const PlannedRows& rows, std::uint32_t first_row,
              std::span<const std::uint64_t> hidden, std::vector<RowSample>& samples);
  std::vector<std::uint64_t> attend(const Stage& stage, const StepPlan& step,
                                    std::uint32_t number) const;

  const SimulatedModel model_;
  const std::uint32_t block_tokens_;
  const std::function<SimulatedText(ChoiceKey)> texts_;
  std::vector<Stage> stages_;
  std::map<StepId, std::map<std::uint32_t, std::int64_t>> results_;  ///< by row, for references
  /// Of the last stage: what a sequence gave last, or none while its rows are those of a wrong
  /// draft.
  std::map<SequenceId, std::optional<std::int64_t>> last_;
};

}  // namespace paceline::sched
