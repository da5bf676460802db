// Long work on standard error: a bar with rate and time left on a terminal, plain lines elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "compiler/progress.h"

namespace paceline::cli {

/// Thread-compatible. Ends its line when it is destroyed.
class ProgressBar final : public compiler::Progress {
 public:
  /// On standard error.
  explicit ProgressBar(const Clock& clock);
  /// On `out`, which outlives it.
  ProgressBar(const Clock& clock, std::FILE* out, bool is_terminal);
  ~ProgressBar() override;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// False after Ctrl-C.
  bool update(std::string_view phase, std::uint64_t done, std::uint64_t total) override;
  void note(std::string_view message) override;

 private:
  std::string line(std::uint64_t done, std::uint64_t total) const;

  const Clock& clock_;
  std::FILE* const out_;
  const bool is_terminal_;
  std::string phase_;
  TimePoint phase_begin_;
  std::uint64_t first_done_ = 0;  ///< what was there already counts for no rate
  TimePoint last_shown_;
  int last_percent_ = -1;
};

}  // namespace paceline::cli
