// A terminal's second screen, drawn anew each time; the first one is as it was afterwards.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string_view>

namespace paceline::cli {

/// Lifecycle: the constructor takes the terminal, the destructor gives it back. Thread-compatible.
class TerminalScreen {
 public:
  static constexpr std::size_t kDefaultWidth = 100;

  /// Whether input and output are a terminal.
  static bool is_there();

  /// `interrupted`: of Ctrl-C, which does not end the process then.
  explicit TerminalScreen(const std::atomic<bool>& interrupted);
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  /// Lines, each with its end; what does not fit below is left out.
  void show(std::string_view lines);
  /// Columns.
  std::size_t width() const;
  /// True once q or Ctrl-C was typed, or the input has ended; false after that time.
  bool wait_for_end(std::chrono::milliseconds time);

 private:
  struct Settings;
  const std::unique_ptr<Settings> settings_;  ///< as the terminal was
  const std::atomic<bool>& interrupted_;
};

}  // namespace paceline::cli
