#include "wire/step_decode.h"

#include <string_view>
#include <utility>

namespace paceline::wire {
namespace {

template <typename Field>
std::vector<StageTime> stage_times_from(const Field& in) {
  std::vector<StageTime> times;
  for (const proto::StageTime& time : in) {
    times.push_back({StageId(time.stage()), time.queue_us(), time.compute_us()});
  }
  return times;
}

Result<std::vector<TokenRef>> tokens_from(const proto::StepSequence& in) {
  std::vector<TokenRef> tokens;
  tokens.reserve(static_cast<std::size_t>(in.tokens_size()));
  for (const std::uint32_t token : in.tokens()) tokens.emplace_back(std::int64_t{token});
  std::size_t lowest = 0;
  for (const proto::TokenReference& reference : in.references()) {
    const std::size_t index = reference.index();
    if (index < lowest || index >= tokens.size() || in.tokens(static_cast<int>(index)) != 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "step.sequences.references: index {} of {} tokens, expected rising places of 0",
                  index, tokens.size());
    }
    tokens[index] = TokenReference{StepId(reference.step()), reference.row()};
    lowest = index + 1;
  }
  return tokens;
}

Result<std::vector<Operation>> operations_from(const proto::StepSequence& in) {
  std::vector<Operation> operations;
  for (const proto::Operation& operation : in.operations()) {
    switch (operation.operation_case()) {
      case proto::Operation::kForkFrom:
        operations.emplace_back(Fork{SequenceId(operation.fork_from())});
        break;
      case proto::Operation::kTruncateTokens:
        operations.emplace_back(Truncate{operation.truncate_tokens()});
        break;
      case proto::Operation::kFree:
        operations.emplace_back(Free{});
        break;
      case proto::Operation::OPERATION_NOT_SET:
        return fail(ErrorCode::kUnimplemented,
                    "step.sequences.operations: an operation that this version does not know");
    }
  }
  return operations;
}

Result<StepSequence> sequence_from(const proto::StepSequence& in) {
  StepSequence out;
  out.sequence = SequenceId(in.sequence());
  out.past_tokens = in.past_tokens();
  out.new_tokens = in.new_tokens();
  PACELINE_ASSIGN_OR_RETURN(out.tokens, tokens_from(in));
  out.sampled_rows.assign(in.sampled_rows().begin(), in.sampled_rows().end());
  PACELINE_ASSIGN_OR_RETURN(out.operations, operations_from(in));
  for (const proto::BlockList& group : in.blocks()) {
    std::vector<BlockId>& blocks = out.blocks.emplace_back();
    blocks.reserve(static_cast<std::size_t>(group.blocks_size()));
    for (const std::uint32_t block : group.blocks()) blocks.emplace_back(block);
  }
  out.drafts.assign(in.drafts().begin(), in.drafts().end());
  return out;
}

/// `values` belong to `tokens`, one each.
Status check_pairs(std::string_view what, int tokens, int values) {
  if (tokens == values) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: {} tokens with {} numbers", what, tokens, values);
}

Result<sampling::SamplingSpec> sampling_from(const proto::SequenceSpec& in) {
  sampling::SamplingSpec out;
  out.temperature = in.temperature();
  out.top_p = in.top_p();
  out.top_k = in.top_k();
  out.seed = in.seed();
  out.choice = in.choice();
  out.min_p = in.min_p();
  if (in.has_repetition_penalty()) out.repetition_penalty = in.repetition_penalty();
  out.presence_penalty = in.presence_penalty();
  out.frequency_penalty = in.frequency_penalty();
  PACELINE_RETURN_IF_ERROR(
      check_pairs("step.opened.logit_bias", in.biased_tokens_size(), in.biases_size()));
  for (int i = 0; i < in.biases_size(); ++i) {
    out.logit_bias.push_back({in.biased_tokens(i), in.biases(i)});
  }
  out.stop_tokens.assign(in.stop_tokens().begin(), in.stop_tokens().end());
  out.min_tokens = in.min_tokens();
  if (in.has_logprobs()) out.logprobs = in.logprobs();
  if (in.grammar_kind() == 0) return out;
  if (in.grammar_kind() > static_cast<std::uint32_t>(GrammarKind::kLark)) {
    return fail(ErrorCode::kUnimplemented,
                "step.opened.grammar: kind {} is not known to this version", in.grammar_kind());
  }
  out.grammar = GrammarSpec{static_cast<GrammarKind>(in.grammar_kind()), in.grammar()};
  return out;
}

Result<SequenceSpec> spec_from(const proto::SequenceSpec& in) {
  SequenceSpec out;
  out.sequence = SequenceId(in.sequence());
  PACELINE_ASSIGN_OR_RETURN(out.sampling, sampling_from(in));
  out.history.assign(in.history().begin(), in.history().end());
  out.want_logits_digest = in.want_logits_digest();
  out.prompt_tokens = in.prompt_tokens();
  out.want_mean = in.want_mean();
  return out;
}

Result<Sample> sample_from(const proto::Sample& in) {
  Sample out;
  out.sequence = SequenceId(in.sequence());
  out.row = in.row();
  out.token = in.token();
  out.logprob = in.logprob();
  out.logits_digest = in.logits_digest();
  PACELINE_RETURN_IF_ERROR(
      check_pairs("step_result.samples.top", in.top_tokens_size(), in.top_logprobs_size()));
  for (int i = 0; i < in.top_tokens_size(); ++i) {
    out.top.push_back({in.top_tokens(i), in.top_logprobs(i)});
  }
  out.failure = in.failure();
  out.mean.assign(in.mean().begin(), in.mean().end());
  return out;
}

template <typename Field>
Result<std::vector<SequenceSpec>> opened_from(const Field& in) {
  std::vector<SequenceSpec> opened;
  for (const proto::SequenceSpec& spec : in) {
    PACELINE_ASSIGN_OR_RETURN(auto decoded, spec_from(spec));
    opened.push_back(std::move(decoded));
  }
  return opened;
}

std::uint64_t tokens_of(const proto::StepSequence& in) {
  return static_cast<std::uint64_t>(in.tokens_size()) +
         static_cast<std::uint64_t>(in.drafts_size());
}
std::uint64_t tokens_of(const proto::SequenceSampling& in) {
  return static_cast<std::uint64_t>(in.drafts_size());
}

/// What would take several times its wire size as structs, before it does.
template <typename Message>
Status check_totals(std::string_view what, const Message& in, const Limits& limits) {
  std::uint64_t tokens = 0;
  std::uint64_t history = 0;
  for (const auto& sequence : in.sequences()) tokens += tokens_of(sequence);
  for (const auto& spec : in.opened()) history += static_cast<std::uint64_t>(spec.history_size());
  if (tokens > limits.step_tokens || history > limits.history_tokens) {
    return fail(ErrorCode::kResourceExhausted, "{}: {} tokens and {} of history, at most {} and {}",
                what, tokens, history, limits.step_tokens, limits.history_tokens);
  }
  return {};
}

}  // namespace

Result<Message> decode_step(const proto::Step& in, const Limits& limits) {
  PACELINE_RETURN_IF_ERROR(check_totals("step", in, limits));
  Step out;
  for (const proto::StepSequence& sequence : in.sequences()) {
    PACELINE_ASSIGN_OR_RETURN(auto decoded, sequence_from(sequence));
    out.sequences.push_back(std::move(decoded));
  }
  PACELINE_ASSIGN_OR_RETURN(out.opened, opened_from(in.opened()));
  for (const proto::BlockCopy& copy : in.copies()) {
    out.copies.push_back({copy.group(), BlockId(copy.from()), BlockId(copy.to())});
  }
  out.stage_times = stage_times_from(in.stage_times());
  out.sampled_apart = in.sampled_apart();
  return out;
}

Result<Message> decode_step_sampling(const proto::StepSampling& in, const Limits& limits) {
  PACELINE_RETURN_IF_ERROR(check_totals("step_sampling", in, limits));
  StepSampling out;
  for (const proto::SequenceSampling& sequence : in.sequences()) {
    SequenceSampling& added = out.sequences.emplace_back();
    added.sequence = SequenceId(sequence.sequence());
    added.sampled_rows.assign(sequence.sampled_rows().begin(), sequence.sampled_rows().end());
    added.drafts.assign(sequence.drafts().begin(), sequence.drafts().end());
  }
  PACELINE_ASSIGN_OR_RETURN(out.opened, opened_from(in.opened()));
  return out;
}

Result<Message> decode_step_result(const proto::StepResult& in) {
  if (in.outcome() < 1 || in.outcome() > 3) {
    return fail(ErrorCode::kUnimplemented, "step_result.outcome: {} is not known to this version",
                in.outcome());
  }
  StepResult out;
  out.outcome = static_cast<Outcome>(in.outcome());
  for (const proto::Sample& sample : in.samples()) {
    PACELINE_ASSIGN_OR_RETURN(auto decoded, sample_from(sample));
    out.samples.push_back(std::move(decoded));
  }
  out.stage_times = stage_times_from(in.stage_times());
  out.error_code = error_code_from_number(in.error_code());
  out.error_message = in.error_message();
  return out;
}

}  // namespace paceline::wire
