#include "cli/progress_bar.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "cli/interrupt.h"

namespace paceline::cli {
namespace {

constexpr int kBarWidth = 30;
constexpr auto kRefresh = std::chrono::milliseconds(100);
constexpr int kPlainPercentStep = 25;
/// Counts below this are no bytes but steps, which have no rate worth showing.
constexpr std::uint64_t kByteCounts = 1U << 16U;

}  // namespace

ProgressBar::ProgressBar(const Clock& clock)
    : clock_(clock), is_terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (is_terminal_ && !phase_.empty()) fmt::print(stderr, "\n");
}

std::string ProgressBar::line(std::uint64_t done, std::uint64_t total) const {
  const double part = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  std::string text = fmt::format("{:<10} {:3.0f} %", phase_, 100.0 * part);
  const double seconds = std::chrono::duration<double>(clock_.now() - phase_begin_).count();
  if (total >= kByteCounts && seconds > 0.5 && part > 0.0) {
    text += fmt::format("  {:.0f} MB/s, {:.0f} s left", static_cast<double>(done) / 1e6 / seconds,
                        seconds / part * (1.0 - part));
  }
  return text;
}

bool ProgressBar::update(std::string_view phase, std::uint64_t done, std::uint64_t total) {
  const TimePoint now = clock_.now();
  const bool is_new = phase != phase_;
  if (is_new) {
    if (is_terminal_ && !phase_.empty()) fmt::print(stderr, "\n");
    phase_ = phase;
    phase_begin_ = now;
    last_percent_ = -1;
  }
  const int percent = total == 0 ? 100 : static_cast<int>(100 * done / total);
  if (is_terminal_) {
    if (is_new || done == total || now - last_shown_ > kRefresh) {
      last_shown_ = now;
      const int filled = percent * kBarWidth / 100;
      fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {}\033[K", "", filled, "", kBarWidth - filled,
                 line(done, total));
    }
  } else if (last_percent_ < 0 || percent >= last_percent_ + kPlainPercentStep ||
             (percent == 100 && last_percent_ < 100)) {
    last_percent_ = percent;
    fmt::print(stderr, "{}\n", line(done, total));
  }
  return !interrupt_flag().load();
}

}  // namespace paceline::cli
