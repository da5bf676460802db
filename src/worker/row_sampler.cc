#include "worker/row_sampler.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "wire/text.h"

namespace paceline::worker {
namespace {

tl::unexpected<Error> failure(const wire::StepSequence& entry, const Error& error) {
  return fail(error.with_context(fmt::format("sequence {}", entry.sequence.value())));
}

bool begins_with_draft(const wire::StepSequence& entry) {
  return !entry.drafts.empty() && entry.drafts.size() == entry.new_tokens;
}

/// The rows at the end that belong to drafts.
std::size_t drafted_rows(const wire::StepSequence& entry) {
  if (entry.drafts.empty() || begins_with_draft(entry)) return entry.drafts.size();
  return entry.drafts.size() + 1;
}

}  // namespace

void SampledSequence::fork_from(const SampledSequence& parent) {
  is_astray = parent.is_astray;
  last_token = parent.last_token;
  last_position = parent.last_position;
  if (sampler == nullptr || !sampler->spec().needs_history()) return;
  const sampling::TokenHistory& own = sampler->history();
  if (own.end_position() > own.first_position()) return;
  auto heir = std::make_shared<sampling::SequenceSampler>(*sampler);
  heir->inherit(*parent.sampler);
  sampler = std::move(heir);
}

void SampledSequence::truncate(std::uint32_t tokens) {
  is_astray = false;
  const std::uint64_t end = std::uint64_t{tokens} + 1;
  if (sampler == nullptr || sampler->history().end_position() <= end) return;
  auto shorter = std::make_shared<sampling::SequenceSampler>(*sampler);
  shorter->truncate(end);
  sampler = std::move(shorter);
}

Status RowSampler::add(const wire::StepSequence& entry, SampledSequence& sequence) {
  const std::size_t rows = entry.sampled_rows.size();
  const std::size_t drafted = drafted_rows(entry);
  if (rows < drafted) {
    return fail(ErrorCode::kInvalidArgument, "sequence {} has {} drafts and {} sampled rows",
                entry.sequence.value(), entry.drafts.size(), rows);
  }
  if (begins_with_draft(entry) && !sequence.is_astray) {
    PACELINE_ASSIGN_OR_RETURN(const bool is_right, begins_right(entry, sequence));
    sequence.is_astray = !is_right;
  }
  if (rows > 0 && !sequence.is_astray) {
    accepted_.emplace_back(sequence.sampler.get(), sequence.sampler->history().end_position());
    for (std::size_t index = 0; index + drafted < rows; ++index) {
      PACELINE_RETURN_IF_ERROR(add_row(entry, index, sequence));
    }
    if (drafted > 0) PACELINE_RETURN_IF_ERROR(add_drafted(entry, sequence));
  }
  next_logits_row_ += rows;
  first_row_ += entry.new_tokens;
  return {};
}

Result<bool> RowSampler::begins_right(const wire::StepSequence& entry,
                                      const SampledSequence& sequence) {
  if (sequence.last_position != entry.past_tokens) {
    return fail(ErrorCode::kFailedPrecondition,
                "sequence {} guesses the token at position {}, which was not sampled here",
                entry.sequence.value(), entry.past_tokens);
  }
  // A text that has ended does not go on.
  return sequence.last_token == entry.drafts.front() &&
         !sequence.sampler->ends(entry.drafts.front());
}

void RowSampler::undo() {
  for (const auto& [sampler, end] : accepted_) sampler->truncate(end);
}

Status RowSampler::add_row(const wire::StepSequence& entry, std::size_t index,
                           SampledSequence& sequence) {
  sampling::SequenceSampler& sampler = *sequence.sampler;
  // The position that the token will have: the same whatever the batch or chunk.
  const std::uint64_t position = std::uint64_t{entry.past_tokens} + entry.sampled_rows[index] + 1;
  const bool is_known = position < sampler.prompt_tokens();
  if (!is_known && !sequence.failure.empty()) {
    return push_failure(entry, index, position, sequence);
  }
  const auto choose = [&]() -> Result<sampling::Sample> {
    if (is_known) return sampler.score(logits(index, 1), position, workspace_);
    sampling::TokenMask mask;
    if (sequence.grammar != nullptr) {
      PACELINE_ASSIGN_OR_RETURN(mask, GrammarMasks(*sequence.grammar, sampler).mask({}));
    }
    return sampler.sample(logits(index, 1), position, workspace_, mask);
  };
  const auto sample = choose();
  if (!sample && sequence.grammar != nullptr && !is_known) {
    sequence.failure = wire::clean_text(sample.error().message(), kMaxFailureBytes);
    return push_failure(entry, index, position, sequence);
  }
  if (!sample) return failure(entry, sample.error());
  if (!is_known) sampler.accept(static_cast<std::uint32_t>(sample->token));
  sequence.last_token = sample->token;
  sequence.last_position = position;
  push(entry, index, *sample, sequence.wants_digest);
  return {};
}

Status RowSampler::add_drafted(const wire::StepSequence& entry, SampledSequence& sequence) {
  const std::size_t rows = drafted_rows(entry);
  const std::size_t first = entry.sampled_rows.size() - rows;
  const std::uint64_t position = std::uint64_t{entry.past_tokens} + entry.sampled_rows[first] + 1;
  const auto drafts = std::span(entry.drafts).last(rows - 1);
  if (!sequence.failure.empty()) return push_failure(entry, first, position, sequence);
  std::optional<GrammarMasks> masks;
  if (sequence.grammar != nullptr) masks.emplace(*sequence.grammar, *sequence.sampler);
  const auto samples = sequence.sampler->verify(logits(first, rows), position, drafts, workspace_,
                                                masks ? &*masks : nullptr);
  if (!samples && masks) {
    sequence.failure = wire::clean_text(samples.error().message(), kMaxFailureBytes);
    return push_failure(entry, first, position, sequence);
  }
  if (!samples) return failure(entry, samples.error());
  for (std::size_t i = 0; i < samples->size(); ++i) {
    push(entry, first + i, (*samples)[i], sequence.wants_digest);
  }
  sequence.is_astray = samples->size() < rows;
  sequence.last_token = samples->back().token;
  sequence.last_position = position + samples->size() - 1;
  return {};
}

Status RowSampler::push_failure(const wire::StepSequence& entry, std::size_t index,
                                std::uint64_t position, SampledSequence& sequence) {
  sampling::Sample none;
  const auto& stops = sequence.sampler->spec().stop_tokens;
  if (!stops.empty()) none.token = stops.front();  // whoever reads tokens alone sees an end
  push(entry, index, none, false);
  samples_.back().failure = sequence.failure;
  sequence.is_astray = index + 1 < entry.sampled_rows.size();  // the drafts behind it
  sequence.last_token = none.token;
  sequence.last_position = position;
  return {};
}

void RowSampler::push(const wire::StepSequence& entry, std::size_t index,
                      const sampling::Sample& from, bool wants_digest) {
  wire::Sample sample;
  sample.sequence = entry.sequence;
  sample.row = first_row_ + entry.sampled_rows[index];
  sample.token = from.token;
  sample.logprob = static_cast<float>(from.logprob);
  for (const sampling::TokenLogprob& likely : from.top) {
    sample.top.push_back({likely.token, static_cast<float>(likely.logprob)});
  }
  if (wants_digest) sample.logits_digest = sampling::logits_digest(logits(index, 1));
  samples_.push_back(std::move(sample));
}

}  // namespace paceline::worker
