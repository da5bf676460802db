#include "draft/draft_line.h"

#include <algorithm>
#include <utility>

namespace paceline::draft {

Status DraftLine::follow(std::span<const std::int64_t> known, std::span<const std::int64_t> assumed,
                         std::uint64_t vocabulary_size) {
  if (!sampler_) {
    std::vector<std::uint32_t> history;
    if (needs_history()) history.assign(known.begin(), known.end());
    PACELINE_ASSIGN_OR_RETURN(sampler_, sampling::SequenceSampler::create(
                                            sampling_, prompt_tokens_, history, vocabulary_size));
    tokens_.assign(known.begin(), known.end());
  }
  const std::size_t size = known.size() + assumed.size();
  const auto at = [&](std::size_t place) {
    return place < known.size() ? known[place] : assumed[place - known.size()];
  };
  std::size_t same = 0;
  while (same < std::min(size, tokens_.size()) && tokens_[same] == at(same)) ++same;
  if (same < size) {
    cut(same);
    for (; same < size; ++same) append(at(same));
  }
  text_ = size;
  return {};
}

void DraftLine::cut(std::size_t end) {
  if (end < tokens_.size()) has_ended_ = false;
  tokens_.resize(end);
  computed_ = std::min(computed_, end);
  if (needs_history()) sampler_->truncate(end);
}

void DraftLine::append(std::int64_t token) {
  has_ended_ = false;
  tokens_.push_back(token);
  if (needs_history()) sampler_->accept(static_cast<std::uint32_t>(token));
}

void DraftLine::want(std::size_t count, std::size_t horizon) {
  wanted_ = count;
  horizon_ = std::max(count, horizon);
}

SentRows DraftLine::next_rows(spec::LineId line, std::size_t most) const {
  SentRows rows;
  rows.line = line;
  rows.life = life_;
  rows.past = computed_;
  const std::size_t count = std::min(most, missing_rows());
  const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(computed_);
  rows.tokens.assign(first, first + static_cast<std::ptrdiff_t>(count));
  rows.is_sampled = count == missing_rows();
  return rows;
}

Status DraftLine::settle(const SentRows& rows, std::span<const float> logits,
                         sampling::Workspace& workspace) {
  // Lost or cut meanwhile: they build on what is no more.
  if (life_ != rows.life || computed_ != rows.past) return {};
  const auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(computed_);
  const auto same =
      std::mismatch(rows.tokens.begin(), rows.tokens.end(), begin, tokens_.end()).first;
  const auto right = static_cast<std::size_t>(same - rows.tokens.begin());
  if (right < rows.tokens.size() || !rows.is_sampled || computed_ + right < tokens_.size()) {
    // The last token's row is computed for its guess, also where that is not new.
    computed_ = std::min(computed_ + right, tokens_.size() - 1);
    return {};
  }
  const auto token = sampler_->draw(logits, tokens_.size(), workspace);
  if (!token) {
    has_ended_ = true;
    return fail(token.error());
  }
  computed_ += right;
  append(*token);
  has_ended_ = sampler_->ends(*token);
  return {};
}

std::vector<std::int64_t> DraftLine::guessed(std::size_t most) const {
  const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(text_);
  return {first, first + static_cast<std::ptrdiff_t>(std::min(most, guesses()))};
}

}  // namespace paceline::draft
