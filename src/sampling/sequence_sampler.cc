#include "sampling/sequence_sampler.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace paceline::sampling {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

void apply_mask(TokenMask mask, std::vector<float>& logits) {
  for (std::size_t word = 0; word * 32 < logits.size(); ++word) {
    const std::uint32_t allowed = word < mask.size() ? mask[word] : 0;
    if (allowed == std::numeric_limits<std::uint32_t>::max()) continue;
    const std::size_t end = std::min((word + 1) * 32, logits.size());
    for (std::size_t token = word * 32; token < end; ++token) {
      if ((allowed >> (token % 32) & 1U) == 0) logits[token] = kForbidden;
    }
  }
}

}  // namespace

SequenceSampler::SequenceSampler(SamplingSpec spec, std::uint64_t prompt_tokens,
                                 std::span<const std::uint32_t> tokens,
                                 std::uint64_t vocabulary_size)
    : spec_(std::move(spec)),
      vocabulary_size_(vocabulary_size),
      prompt_tokens_(prompt_tokens),
      history_(prompt_tokens, tokens),
      given_end_(history_.end_position()) {}

Result<SequenceSampler> SequenceSampler::create(SamplingSpec spec, std::uint64_t prompt_tokens,
                                                std::span<const std::uint32_t> tokens,
                                                std::uint64_t vocabulary_size) {
  PACELINE_RETURN_IF_ERROR(check(spec, vocabulary_size));
  for (const std::uint32_t token : tokens) {
    if (token >= vocabulary_size) {
      return fail(ErrorCode::kInvalidArgument, "history: token {} is outside the vocabulary of {}",
                  token, vocabulary_size);
    }
  }
  return SequenceSampler(std::move(spec), prompt_tokens, tokens, vocabulary_size);
}

bool SequenceSampler::ends(std::uint32_t token) const {
  return std::find(spec_.stop_tokens.begin(), spec_.stop_tokens.end(), token) !=
         spec_.stop_tokens.end();
}

void SequenceSampler::accept(std::uint32_t token) {
  if (spec_.needs_history()) history_.push(token);
}

void SequenceSampler::inherit(const SequenceSampler& parent) {
  history_ = parent.history_;
  given_end_ = parent.given_end_;
}

void SequenceSampler::truncate(std::uint64_t end) { history_.truncate(std::max(end, given_end_)); }

void SequenceSampler::apply_penalties(std::vector<float>& logits) const {
  const auto repetition = static_cast<float>(spec_.repetition_penalty);
  for (const TokenHistory::Entry& entry : history_.entries()) {
    if (entry.in_prompt == 0 && entry.in_answer == 0) continue;
    float& logit = logits[entry.token];
    logit = logit > 0 ? logit / repetition : logit * repetition;
    if (entry.in_answer == 0) continue;
    const double penalty = spec_.presence_penalty + spec_.frequency_penalty * entry.in_answer;
    logit = static_cast<float>(double{logit} - penalty);
  }
}

std::span<const float> SequenceSampler::adjust(std::span<const float> logits,
                                               std::uint64_t position, Workspace& workspace,
                                               TokenMask mask) const {
  const bool is_too_early = !spec_.stop_tokens.empty() && spec_.min_tokens > 0 &&
                            position < prompt_tokens_ + spec_.min_tokens;
  if (spec_.logit_bias.empty() && !is_too_early && mask.empty() && !spec_.has_penalties()) {
    return logits;
  }
  std::vector<float>& adjusted = workspace.adjusted;
  adjusted.assign(logits.begin(), logits.end());
  for (const LogitBias& entry : spec_.logit_bias) adjusted[entry.token] += entry.bias;
  if (is_too_early) {
    for (const std::uint32_t token : spec_.stop_tokens) adjusted[token] = kForbidden;
  }
  if (!mask.empty()) apply_mask(mask, adjusted);
  if (spec_.has_penalties()) apply_penalties(adjusted);
  return adjusted;
}

Status SequenceSampler::check_history(std::uint64_t position) const {
  if (!spec_.needs_history()) return {};
  if (spec_.repetition_penalty != 1.0 && history_.first_position() > 0) {
    return fail(ErrorCode::kFailedPrecondition,
                "repetition_penalty: needs the prompt's tokens, the history has none");
  }
  if (history_.end_position() == position) return {};
  return fail(ErrorCode::kFailedPrecondition,
              "the token at position {} depends on all before it, known are those up to {}",
              position, history_.end_position());
}

Result<std::uint32_t> SequenceSampler::draw(std::span<const float> logits, std::uint64_t position,
                                            Workspace& workspace, TokenMask mask) const {
  if (logits.size() != vocabulary_size_) {
    return fail(ErrorCode::kInvalidArgument, "logits: expected {}, got {}", vocabulary_size_,
                logits.size());
  }
  PACELINE_RETURN_IF_ERROR(check_history(position));
  const auto adjusted = adjust(logits, position, workspace, mask);
  auto token = sampling::draw(adjusted, spec_, position, workspace);
  if (token || adjusted.data() == logits.data()) return token;
  const auto is_forbidden = [](float logit) { return logit == kForbidden; };
  if (!std::all_of(adjusted.begin(), adjusted.end(), is_forbidden)) return token;
  return fail(ErrorCode::kFailedPrecondition, "no token is allowed at position {}", position);
}

Result<Sample> SequenceSampler::sample(std::span<const float> logits, std::uint64_t position,
                                       Workspace& workspace, TokenMask mask) const {
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t token, draw(logits, position, workspace, mask));
  if (!spec_.logprobs) return Sample{token, 0, {}};
  return describe(logits, token, *spec_.logprobs, workspace);
}

Result<Sample> SequenceSampler::score(std::span<const float> logits, std::uint64_t position,
                                      Workspace& workspace) const {
  if (position < history_.first_position() || position >= given_end_) {
    return fail(ErrorCode::kFailedPrecondition,
                "the token at position {} is to be scored, the history has no such token",
                position);
  }
  return describe(logits, history_.at(position), spec_.logprobs.value_or(0), workspace);
}

Result<std::vector<Sample>> SequenceSampler::verify(std::span<const float> logits,
                                                    std::uint64_t position,
                                                    std::span<const std::uint32_t> drafts,
                                                    Workspace& workspace, MaskSource* masks) {
  const std::size_t rows = drafts.size() + 1;
  if (logits.size() % rows != 0) {
    return fail(ErrorCode::kInvalidArgument, "drafts: expected {} rows of logits, got {} logits",
                rows, logits.size());
  }
  const std::size_t width = logits.size() / rows;
  const std::uint64_t before = history_.end_position();
  const auto undo = [&](Error error) {
    history_.truncate(before);
    return fail(std::move(error));
  };
  std::vector<Sample> samples;
  std::vector<std::uint32_t> accepted;
  for (std::size_t row = 0;; ++row) {
    TokenMask mask;
    if (masks != nullptr) {
      auto given = masks->mask(accepted);
      if (!given) return undo(std::move(given).error());
      mask = *given;
    }
    auto sampled = sample(logits.subspan(row * width, width), position + row, workspace, mask);
    if (!sampled) return undo(std::move(sampled).error());
    const auto token = static_cast<std::uint32_t>(sampled->token);
    accepted.push_back(token);
    accept(token);
    samples.push_back(*std::move(sampled));
    if (row == drafts.size() || drafts[row] != token || ends(token)) return samples;
  }
}

Result<Sample> sample(std::span<const float> logits, const SamplingSpec& spec,
                      std::uint64_t position) {
  PACELINE_ASSIGN_OR_RETURN(const auto sampler,
                            SequenceSampler::create(spec, 0, {}, logits.size()));
  Workspace workspace;
  if (!spec.needs_history()) return sampler.sample(logits, position, workspace);
  SamplingSpec plain = spec;  // there is nothing to penalize
  plain.repetition_penalty = 1;
  plain.presence_penalty = plain.frequency_penalty = 0;
  plain.grammar.reset();
  return sample(logits, plain, position);
}

}  // namespace paceline::sampling
