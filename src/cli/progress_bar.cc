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

/// "42 s", "3 min 20 s", "2 h 05 min"
std::string human_seconds(double seconds) {
  const auto all = static_cast<std::uint64_t>(seconds + 0.5);
  if (all < 60) return fmt::format("{} s", all);
  if (all < 3600) return fmt::format("{} min {:02} s", all / 60, all % 60);
  return fmt::format("{} h {:02} min", all / 3600, all % 3600 / 60);
}

}  // namespace

ProgressBar::ProgressBar(const Clock& clock)
    : ProgressBar(clock, stderr, ::isatty(STDERR_FILENO) != 0) {}

ProgressBar::ProgressBar(const Clock& clock, std::FILE* out, bool is_terminal)
    : clock_(clock), out_(out), is_terminal_(is_terminal) {}

ProgressBar::~ProgressBar() {
  if (is_terminal_ && !phase_.empty()) fmt::print(out_, "\n");
}

std::string ProgressBar::line(std::uint64_t done, std::uint64_t total) const {
  const double part = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  std::string text = fmt::format("{:<10} {:3.0f} %", phase_, 100.0 * part);
  const double seconds = to_seconds(clock_.now() - phase_begin_);
  if (total >= kByteCounts && seconds > 0.5 && done > first_done_) {
    const double rate = static_cast<double>(done - first_done_) / seconds;
    text += fmt::format("  {:.0f} MB/s, {} left", rate / 1e6,
                        human_seconds(static_cast<double>(total - done) / rate));
  }
  return text;
}

bool ProgressBar::update(std::string_view phase, std::uint64_t done, std::uint64_t total) {
  const TimePoint now = clock_.now();
  const bool is_new = phase != phase_;
  if (is_new) {
    if (is_terminal_ && !phase_.empty()) fmt::print(out_, "\n");
    phase_ = phase;
    phase_begin_ = now;
    first_done_ = done;
    last_percent_ = -1;
  }
  const int percent = total == 0 ? 100 : static_cast<int>(100 * done / total);
  if (is_terminal_) {
    if (is_new || done == total || now - last_shown_ > kRefresh) {
      last_shown_ = now;
      const int filled = percent * kBarWidth / 100;
      fmt::print(out_, "\r[{:#<{}}{:.<{}}] {}\033[K", "", filled, "", kBarWidth - filled,
                 line(done, total));
      std::fflush(out_);
    }
  } else if (last_percent_ < 0 || percent >= last_percent_ + kPlainPercentStep ||
             (percent == 100 && last_percent_ < 100)) {
    last_percent_ = percent;
    fmt::print(out_, "{}\n", line(done, total));
  }
  return !interrupt_flag().load();
}

void ProgressBar::note(std::string_view message) {
  // Over the bar, which the next update draws anew.
  fmt::print(out_, "{}{}\n", is_terminal_ ? "\r\033[K" : "", message);
}

}  // namespace paceline::cli
