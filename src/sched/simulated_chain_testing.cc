#include "sched/simulated_chain_testing.h"

#include <algorithm>
#include <set>
#include <utility>

namespace paceline::sched {
namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t state = (a + 0x9E3779B97F4A7C15ULL) ^ (b * 0xD6E8FEB86659FD93ULL);
  state = (state ^ (state >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  state = (state ^ (state >> 27U)) * 0x94D049BB133111EBULL;
  return state ^ (state >> 31U);
}

/// What a row gives: all KV up to its own, in order.
std::uint64_t fold(std::uint64_t state, std::uint64_t kv) { return mix(state, kv); }
std::uint64_t first_state(std::uint32_t stage) { return mix(stage, 17); }
std::uint64_t token_input(std::int64_t token, const SimulatedText& of) {
  return mix(static_cast<std::uint64_t>(token), of.salt);
}

}  // namespace

std::int64_t SimulatedModel::sample(std::uint64_t hidden, const SimulatedText& of) const {
  const std::uint64_t noise = mix(hidden, of.choice);
  if (noise % end_every == 0) return kSimulatedEnd;
  return static_cast<std::int64_t>(1 + (noise >> 20U) % (vocabulary - 1));
}

std::int64_t SimulatedModel::next(std::span<const std::int64_t> text,
                                  const SimulatedText& of) const {
  std::vector<std::uint64_t> states;
  for (std::uint32_t stage = 0; stage < stages; ++stage) states.push_back(first_state(stage));
  std::uint64_t hidden = 0;
  for (const std::int64_t token : text) {
    hidden = token_input(token, of);
    for (std::uint64_t& state : states) hidden = state = fold(state, hidden);
  }
  return sample(hidden, of);
}

std::vector<std::int64_t> SimulatedModel::answer(std::vector<std::int64_t> prompt,
                                                 const SimulatedText& of, std::size_t most) const {
  const auto begin = static_cast<std::ptrdiff_t>(prompt.size());
  for (std::size_t count = 0; count < most; ++count) {
    prompt.push_back(next(prompt, of));
    if (prompt.back() == kSimulatedEnd) break;
  }
  return {prompt.begin() + begin, prompt.end()};
}

SimulatedChain::SimulatedChain(SimulatedModel model, std::uint32_t blocks,
                               std::uint32_t block_tokens,
                               std::function<SimulatedText(ChoiceKey)> texts)
    : model_(model), block_tokens_(block_tokens), texts_(std::move(texts)) {
  stages_.resize(model.stages);
  for (Stage& stage : stages_) {
    stage.memory.assign(blocks, std::vector<std::uint64_t>(block_tokens, 0xDEAD));
  }
}

std::size_t SimulatedChain::open_sequences() const {
  std::size_t most = 0;
  for (const Stage& stage : stages_) most = std::max(most, stage.sequences.size());
  return most;
}

Status SimulatedChain::apply_operations(Stage& stage, const StepPlan& step) const {
  std::map<SequenceId, std::uint32_t> sequences = stage.sequences;
  std::set<SequenceId> opened;
  for (const OpenedSequence& sequence : step.opened) {
    if (!sequences.emplace(sequence.sequence, 0).second) {
      return fail(ErrorCode::kFailedPrecondition, "sequence {} is open already",
                  sequence.sequence.value());
    }
    opened.insert(sequence.sequence);
  }
  for (const PlannedRows& rows : step.sequences) {
    const auto found = sequences.find(rows.sequence);
    if (found == sequences.end()) {
      return fail(ErrorCode::kFailedPrecondition, "sequence {} is not open", rows.sequence.value());
    }
    if (rows.fork_from) {
      const auto parent = sequences.find(*rows.fork_from);
      if (parent == sequences.end()) {
        return fail(ErrorCode::kFailedPrecondition, "fork from {}, not open",
                    rows.fork_from->value());
      }
      found->second = parent->second;
    } else if (opened.contains(rows.sequence)) {
      found->second = rows.past_tokens;
    }
    if (rows.truncate_to) found->second = std::min(found->second, *rows.truncate_to);
    if (found->second != rows.past_tokens) {
      return fail(ErrorCode::kFailedPrecondition, "sequence {} continues at {}, {} are held",
                  rows.sequence.value(), rows.past_tokens, found->second);
    }
  }
  for (const PlannedRows& rows : step.sequences) {
    sequences[rows.sequence] = rows.past_tokens + static_cast<std::uint32_t>(rows.tokens.size());
  }
  for (const SequenceId sequence : step.freed) sequences.erase(sequence);
  stage.sequences = std::move(sequences);
  return {};
}

Result<std::vector<std::uint64_t>> SimulatedChain::first_inputs(const StepPlan& step) const {
  std::vector<std::uint64_t> inputs;
  for (const PlannedRows& rows : step.sequences) {
    const SimulatedText text = texts_(rows.key);
    for (const TokenInput& input : rows.tokens) {
      if (const auto* token = std::get_if<std::int64_t>(&input)) {
        inputs.push_back(token_input(*token, text));
        continue;
      }
      const auto& reference = std::get<TokenReference>(input);
      const auto found = results_.find(reference.step);
      if (found == results_.end() || !found->second.contains(reference.row)) {
        return fail(ErrorCode::kFailedPrecondition, "step {} row {} was not sampled",
                    reference.step.value(), reference.row);
      }
      inputs.push_back(token_input(found->second.at(reference.row), text));
    }
  }
  return inputs;
}

Status SimulatedChain::write(Stage& stage, const StepPlan& step,
                             std::span<const std::uint64_t> inputs) const {
  for (const kv::BlockCopy& copy : step.copies) {
    stage.memory.at(copy.to.value()) = stage.memory.at(copy.from.value());
  }
  std::set<std::pair<std::uint32_t, std::uint32_t>> written;
  std::size_t next = 0;
  for (const PlannedRows& rows : step.sequences) {
    for (std::uint32_t row = 0; row < rows.tokens.size(); ++row) {
      const std::uint32_t position = rows.past_tokens + row;
      const std::uint32_t block = rows.blocks.at(position / block_tokens_).value();
      if (!written.emplace(block, position % block_tokens_).second) {
        return fail(ErrorCode::kInternal, "block {} is written twice in step {}", block,
                    step.id.value());
      }
      stage.memory.at(block)[position % block_tokens_] = inputs[next++];
    }
  }
  return {};
}

std::vector<std::uint64_t> SimulatedChain::attend(const Stage& stage, const StepPlan& step,
                                                  std::uint32_t number) const {
  std::vector<std::uint64_t> outputs;
  for (const PlannedRows& rows : step.sequences) {
    std::uint64_t state = first_state(number);
    const auto end = rows.past_tokens + static_cast<std::uint32_t>(rows.tokens.size());
    for (std::uint32_t position = 0; position < end; ++position) {
      const std::uint32_t block = rows.blocks[position / block_tokens_].value();
      state = fold(state, stage.memory[block][position % block_tokens_]);
      if (position >= rows.past_tokens) outputs.push_back(state);
    }
  }
  return outputs;
}

void SimulatedChain::sample(const StepPlan& step, const PlannedRows& rows, std::uint32_t first_row,
                            std::span<const std::uint64_t> hidden,
                            std::vector<RowSample>& samples) {
  if (rows.truncate_to) last_.erase(rows.sequence);
  const auto last = last_.find(rows.sequence);
  const std::size_t first_draft = rows.tokens.size() - rows.drafts;
  const auto draft = [&](std::size_t row) { return std::get<std::int64_t>(rows.tokens[row]); };
  if (last != last_.end() && !last->second) return;  // until it is cut
  if (first_draft == 0 && last != last_.end() && *last->second != draft(0)) {
    last->second = std::nullopt;
    return;
  }
  for (const std::uint32_t row : rows.sampled_rows) {
    const std::int64_t token = model_.sample(hidden[row], texts_(rows.key));
    samples.push_back({first_row + row, token});
    results_[step.id][first_row + row] = token;
    last_[rows.sequence] = token;
    const std::size_t next = row + 1;
    if (next == rows.tokens.size() || next < first_draft) continue;
    if (draft(next) == token && token != kSimulatedEnd) continue;
    last_[rows.sequence] = std::nullopt;
    return;
  }
}

Result<std::vector<RowSample>> SimulatedChain::execute(const StepPlan& step,
                                                       std::optional<std::uint32_t> broken_stage) {
  PACELINE_ASSIGN_OR_RETURN(std::vector<std::uint64_t> hidden, first_inputs(step));
  for (std::uint32_t number = 0; number < model_.stages; ++number) {
    if (broken_stage == number) return fail(ErrorCode::kUnavailable, "stage {} broke", number);
    PACELINE_RETURN_IF_ERROR(apply_operations(stages_[number], step));
    PACELINE_RETURN_IF_ERROR(write(stages_[number], step, hidden));
    hidden = attend(stages_[number], step, number);
  }
  std::vector<RowSample> samples;
  std::uint32_t first_row = 0;
  for (const PlannedRows& rows : step.sequences) {
    sample(step, rows, first_row, std::span(hidden).subspan(first_row), samples);
    first_row += static_cast<std::uint32_t>(rows.tokens.size());
  }
  return samples;
}

}  // namespace paceline::sched
