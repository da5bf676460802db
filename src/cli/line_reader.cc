#include "cli/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace paceline::cli {
namespace {

constexpr int kLookMs = 50;  ///< at the flag, while nothing comes

}  // namespace

bool LineReader::next(std::string& line) {
  std::size_t end = buffer_.find('\n');
  while (end == std::string::npos) {
    const std::size_t seen = buffer_.size();
    if (!read_more()) break;
    end = buffer_.find('\n', seen);
  }
  if (interrupted_.load() || (end == std::string::npos && buffer_.empty())) return false;
  line = buffer_.substr(0, end);
  buffer_.erase(0, end == std::string::npos ? end : end + 1);
  return true;
}

bool LineReader::read_more() {
  while (!interrupted_.load()) {
    pollfd source = {descriptor_, POLLIN, 0};
    const int ready = ::poll(&source, 1, kLookMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    if (ready < 0) return false;
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
  }
  return false;
}

}  // namespace paceline::cli
