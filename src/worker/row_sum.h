// The mean of what the head reads of a prompt's rows, which come in one step or in several.
//
// Part of StageExecutor in the last stage; docs/wire.md, "want_mean", says which sequences have
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "wire/messages.h"

namespace paceline::worker {

/// The rows so far. A value: adding makes another, so that a step that fails leaves the one before.
/// Rows are added one by one in f64, so that chunks and batches change no bit. Thread-compatible.
class RowSum {
 public:
  explicit RowSum(std::uint32_t prompt_tokens) : prompt_tokens_(prompt_tokens) {}

  /// Whether the rows of `entry` follow those that are here, from position 0 on.
  /// kInvalidArgument.
  Status check(const wire::StepSequence& entry) const;
  /// Whether `rows` more are all that there are of the prompt.
  bool ends_with(std::uint32_t rows) const { return prompt_tokens_ - rows_ <= rows; }
  /// The prompt's last row, counted from the row that comes next.
  std::uint32_t last_row() const { return prompt_tokens_ - 1 - rows_; }
  /// With more rows of `width` values; those beyond the prompt's end do not count.
  RowSum plus(std::span<const float> rows, std::size_t width) const;
  /// Of all rows of the prompt, once they are here.
  std::vector<float> mean() const;

 private:
  std::uint32_t prompt_tokens_;
  std::uint32_t rows_ = 0;
  std::vector<double> sums_;
};

}  // namespace paceline::worker
