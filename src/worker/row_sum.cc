#include "worker/row_sum.h"

#include <algorithm>
#include <variant>

namespace paceline::worker {

Status RowSum::check(const wire::StepSequence& entry) const {
  const bool stays_whole = std::all_of(
      entry.operations.begin(), entry.operations.end(),
      [](const auto& operation) { return std::holds_alternative<wire::Free>(operation); });
  if (stays_whole && entry.drafts.empty() && entry.past_tokens == rows_) return {};
  return fail(ErrorCode::kInvalidArgument,
              "sequence {} wants the mean of its prompt: expected its rows from token {} on, "
              "without forks, truncations and drafts, got them from {}",
              entry.sequence.value(), rows_, entry.past_tokens);
}

RowSum RowSum::plus(std::span<const float> rows, std::size_t width) const {
  RowSum more = *this;
  more.sums_.resize(width);
  for (; !rows.empty() && more.rows_ < prompt_tokens_; ++more.rows_, rows = rows.subspan(width)) {
    for (std::size_t i = 0; i < width; ++i) more.sums_[i] += double{rows[i]};
  }
  return more;
}

std::vector<float> RowSum::mean() const {
  std::vector<float> mean;
  mean.reserve(sums_.size());
  for (const double sum : sums_) mean.push_back(static_cast<float>(sum / prompt_tokens_));
  return mean;
}

}  // namespace paceline::worker
