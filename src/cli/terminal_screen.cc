#include "cli/terminal_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace paceline::cli {
namespace {

constexpr std::size_t kDefaultHeight = 40;
constexpr auto kLookTime = std::chrono::milliseconds(50);  ///< at the flag, while nothing is typed

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

winsize size() {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) size = {};
  return size;
}

}  // namespace

struct TerminalScreen::Settings {
  termios before = {};
};

bool TerminalScreen::is_there() {
  return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
}

TerminalScreen::TerminalScreen(const std::atomic<bool>& interrupted)
    : settings_(std::make_unique<Settings>()), interrupted_(interrupted) {
  ::tcgetattr(STDIN_FILENO, &settings_->before);
  termios by_key = settings_->before;
  by_key.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &by_key);
  put("\x1b[?1049h\x1b[?25l");  // the second screen, without a cursor
}

TerminalScreen::~TerminalScreen() {
  put("\x1b[?25h\x1b[?1049l");
  ::tcsetattr(STDIN_FILENO, TCSANOW, &settings_->before);
}

std::size_t TerminalScreen::width() const {
  const std::size_t columns = size().ws_col;
  return columns == 0 ? kDefaultWidth : columns;
}

void TerminalScreen::show(std::string_view lines) {
  std::size_t left = size().ws_row;
  if (left == 0) left = kDefaultHeight;
  std::string drawn = "\x1b[H";
  while (!lines.empty() && left > 1) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    drawn += lines.substr(0, end);
    drawn += "\x1b[K\r\n";  // to the line's end nothing is left of what was there
    lines.remove_prefix(std::min(end + 1, lines.size()));
    --left;
  }
  put(drawn + "\x1b[J");
}

bool TerminalScreen::wait_for_end(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!interrupted_.load()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return false;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - now);
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, static_cast<int>(std::min(left, kLookTime).count()) + 1) <= 0) continue;
    std::array<char, 64> keys;
    const ssize_t count = ::read(STDIN_FILENO, keys.data(), keys.size());
    if (count == 0) return true;
    for (ssize_t i = 0; i < count; ++i) {
      const char key = keys[static_cast<std::size_t>(i)];
      if (key == 'q' || key == 'Q') return true;
    }
  }
  return true;
}

}  // namespace paceline::cli
