#include "coordinator/step_translation.h"

#include <utility>
#include <variant>

namespace paceline::coordinator {
namespace {

wire::TokenRef translate(const sched::TokenInput& token, const StepNumbers& numbers) {
  if (const auto* literal = std::get_if<std::int64_t>(&token)) return *literal;
  const auto& reference = std::get<sched::TokenReference>(token);
  return wire::TokenReference{numbers.at(reference.step), reference.row};
}

wire::StepSequence translate(const sched::PlannedRows& rows, const StepNumbers& numbers) {
  wire::StepSequence sequence;
  sequence.sequence = rows.sequence;
  sequence.past_tokens = rows.past_tokens;
  sequence.new_tokens = static_cast<std::uint32_t>(rows.tokens.size());
  for (const auto& token : rows.tokens) sequence.tokens.push_back(translate(token, numbers));
  sequence.sampled_rows = rows.sampled_rows;
  for (std::size_t row = rows.tokens.size() - rows.drafts; row < rows.tokens.size(); ++row) {
    sequence.drafts.push_back(static_cast<std::uint32_t>(std::get<std::int64_t>(rows.tokens[row])));
  }
  if (rows.fork_from) sequence.operations.emplace_back(wire::Fork{*rows.fork_from});
  if (rows.truncate_to) sequence.operations.emplace_back(wire::Truncate{*rows.truncate_to});
  sequence.blocks = {rows.blocks};
  return sequence;
}

}  // namespace

wire::Step translate(const sched::StepPlan& plan, const StepNumbers& numbers,
                     const SpecOf& spec_of) {
  wire::Step step;
  for (const sched::OpenedSequence& opened : plan.opened) step.opened.push_back(spec_of(opened));
  for (const kv::BlockCopy& copy : plan.copies) step.copies.push_back({0, copy.from, copy.to});
  for (const sched::PlannedRows& rows : plan.sequences) {
    step.sequences.push_back(translate(rows, numbers));
  }
  for (const SequenceId freed : plan.freed) {
    wire::StepSequence& ended = step.sequences.emplace_back();
    ended.sequence = freed;
    ended.operations = {wire::Free()};
  }
  return step;
}

}  // namespace paceline::coordinator
