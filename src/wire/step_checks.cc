#include "wire/step_checks.h"

#include <cmath>
#include <cstddef>
#include <unordered_set>

namespace paceline::wire {
namespace {

Status check_rising(std::string_view what, std::span<const std::uint32_t> rows, std::uint32_t end) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= end || (i > 0 && rows[i] <= rows[i - 1])) {
      return fail(ErrorCode::kInvalidArgument, "{}: {} at place {}, expected rising rows below {}",
                  what, rows[i], i, end);
    }
  }
  return {};
}

/// The rows of drafts and the one before them, if there is one, are the last, and sampled.
Status check_drafts(const StepSequence& s) {
  if (s.drafts.empty()) return {};
  const std::size_t rows = s.drafts.size() + (s.drafts.size() == s.new_tokens ? 0 : 1);
  if (s.sampled_rows.size() < rows ||
      s.sampled_rows[s.sampled_rows.size() - rows] + rows != s.new_tokens) {
    return fail(ErrorCode::kInvalidArgument,
                "step.sequences.drafts: {} for sequence {}, expected its last {} rows among the "
                "sampled ones",
                s.drafts.size(), s.sequence.value(), rows);
  }
  for (const std::uint32_t token : s.drafts) {
    PACELINE_RETURN_IF_ERROR(check_token("step.sequences.drafts", token));
  }
  return {};
}

Status check_finite(std::string_view what, double number) {
  if (std::isfinite(number)) return {};
  return fail(ErrorCode::kInvalidArgument, "step.opened.{}: {}, expected a finite number", what,
              number);
}

/// What the sampler may look at; it holds the numbers against their ranges itself.
Status check_sampling(const sampling::SamplingSpec& s, const Limits& limits) {
  if (!std::isfinite(s.temperature) || s.temperature < 0.0) {
    return fail(ErrorCode::kInvalidArgument, "step.opened.temperature: {}, expected 0 or more",
                s.temperature);
  }
  if (!(s.top_p >= 0.0 && s.top_p <= 1.0)) {
    return fail(ErrorCode::kInvalidArgument, "step.opened.top_p: {}, expected 0 to 1", s.top_p);
  }
  PACELINE_RETURN_IF_ERROR(check_finite("min_p", s.min_p));
  PACELINE_RETURN_IF_ERROR(check_finite("repetition_penalty", s.repetition_penalty));
  PACELINE_RETURN_IF_ERROR(check_finite("presence_penalty", s.presence_penalty));
  PACELINE_RETURN_IF_ERROR(check_finite("frequency_penalty", s.frequency_penalty));
  PACELINE_RETURN_IF_ERROR(
      check_count("step.opened.logit_bias", s.logit_bias.size(), limits.logit_biases));
  for (const sampling::LogitBias& entry : s.logit_bias) {
    PACELINE_RETURN_IF_ERROR(check_token("step.opened.logit_bias", entry.token));
    if (std::isnan(entry.bias)) {
      return fail(ErrorCode::kInvalidArgument, "step.opened.logit_bias: nan for token {}",
                  entry.token);
    }
  }
  PACELINE_RETURN_IF_ERROR(
      check_count("step.opened.stop_tokens", s.stop_tokens.size(), limits.stop_tokens));
  for (const std::uint32_t token : s.stop_tokens) {
    PACELINE_RETURN_IF_ERROR(check_token("step.opened.stop_tokens", token));
  }
  if (s.grammar) {
    PACELINE_RETURN_IF_ERROR(
        check_count("step.opened.grammar: bytes", s.grammar->text.size(), limits.grammar_bytes));
  }
  return check_count("step.opened.logprobs", s.logprobs.value_or(0), limits.top_logprobs);
}

}  // namespace

Status check_count(std::string_view what, std::uint64_t count, std::uint64_t most) {
  if (count <= most) return {};
  return fail(ErrorCode::kResourceExhausted, "{}: {}, at most {}", what, count, most);
}

Status check_token(std::string_view what, std::int64_t token) {
  if (token >= 0 && token <= kMaxToken) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: token id {}, expected 0 to {}", what, token,
              kMaxToken);
}

Status check_sampled_rows(const StepSequence& sequence) {
  PACELINE_RETURN_IF_ERROR(
      check_rising("step.sequences.sampled_rows", sequence.sampled_rows, sequence.new_tokens));
  return check_drafts(sequence);
}

Status check_nothing_sampled(const Step& step) {
  for (const StepSequence& s : step.sequences) {
    if (s.sampled_rows.empty() && s.drafts.empty()) continue;
    return fail(ErrorCode::kInvalidArgument,
                "step.sequences: {} sampled rows and {} drafts of sequence {}, expected none where "
                "sampling comes apart",
                s.sampled_rows.size(), s.drafts.size(), s.sequence.value());
  }
  for (const SequenceSpec& spec : step.opened) {
    SequenceSpec number_only;
    number_only.sequence = spec.sequence;
    if (spec == number_only) continue;
    return fail(ErrorCode::kInvalidArgument,
                "step.opened: more than the number of sequence {}, expected none where sampling "
                "comes apart",
                spec.sequence.value());
  }
  return {};
}

Status check_opened(std::span<const SequenceSpec> opened, const Limits& limits) {
  std::uint64_t history = 0;
  std::unordered_set<std::uint64_t> seen;
  for (const SequenceSpec& spec : opened) {
    if (!seen.insert(spec.sequence.value()).second) {
      return fail(ErrorCode::kInvalidArgument, "step.opened: sequence {} stands in it twice",
                  spec.sequence.value());
    }
    PACELINE_RETURN_IF_ERROR(check_sampling(spec.sampling, limits));
    history += spec.history.size();
    PACELINE_RETURN_IF_ERROR(
        check_count("step.opened: history tokens", history, limits.history_tokens));
    for (const std::int64_t token : spec.history) {
      PACELINE_RETURN_IF_ERROR(check_token("step.opened.history", token));
    }
  }
  return {};
}

Status check_step_sampling(const StepSampling& m, const Limits& limits) {
  PACELINE_RETURN_IF_ERROR(
      check_count("step_sampling.sequences", m.sequences.size(), limits.sequences));
  PACELINE_RETURN_IF_ERROR(check_count("step.opened", m.opened.size(), limits.sequences));
  std::uint64_t rows = 0;
  std::uint64_t drafts = 0;
  std::unordered_set<std::uint64_t> seen;
  for (const SequenceSampling& s : m.sequences) {
    if (!seen.insert(s.sequence.value()).second) {
      return fail(ErrorCode::kInvalidArgument,
                  "step_sampling.sequences: sequence {} stands in it twice", s.sequence.value());
    }
    rows += s.sampled_rows.size();
    drafts += s.drafts.size();
    for (const std::uint32_t draft : s.drafts) {
      PACELINE_RETURN_IF_ERROR(check_token("step_sampling.sequences.drafts", draft));
    }
  }
  PACELINE_RETURN_IF_ERROR(check_count("step_sampling: sampled rows", rows, limits.step_tokens));
  PACELINE_RETURN_IF_ERROR(check_count("step_sampling: drafts", drafts, limits.step_tokens));
  return check_opened(m.opened, limits);
}

}  // namespace paceline::wire
