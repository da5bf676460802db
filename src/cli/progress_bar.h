// Long work on standard error: a bar with rate and time left on a terminal, plain lines elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "compiler/progress.h"

namespace paceline::cli {

/// Thread-compatible. Ends its line when it is destroyed.
class ProgressBar final : public compiler::Progress {
 public:
  explicit ProgressBar(const Clock& clock);
  ~ProgressBar() override;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// False after Ctrl-C.
  bool update(std::string_view phase, std::uint64_t done, std::uint64_t total) override;

 private:
  std::string line(std::uint64_t done, std::uint64_t total) const;

  const Clock& clock_;
  const bool is_terminal_;
  std::string phase_;
  TimePoint phase_begin_;
  TimePoint last_shown_;
  int last_percent_ = -1;
};

}  // namespace paceline::cli
