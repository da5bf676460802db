#include "cut/openvino_error.h"

#include <sstream>

namespace paceline::cut {
namespace {

/// Appends `text` with every run of spaces and control characters as one space.
void append_words(std::string_view text, std::string& line) {
  if (!line.empty() && line.back() != ' ') line += ' ';
  for (const char character : text) {
    if (static_cast<unsigned char>(character) > ' ') {
      line += character;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
}

}  // namespace

std::string one_line(const std::exception& exception) {
  constexpr std::size_t kMostBytes = 400;
  std::istringstream lines(exception.what());
  std::string joined;
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with("Exception from ")) append_words(line, joined);
  }
  while (joined.ends_with(' ')) joined.pop_back();
  if (joined.empty()) joined = "no message";
  if (joined.size() > kMostBytes) joined = joined.substr(0, kMostBytes) + "...";
  return joined;
}

}  // namespace paceline::cut
