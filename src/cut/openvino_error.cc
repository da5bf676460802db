#include "cut/openvino_error.h"

#include <sstream>
#include <string_view>

namespace paceline::cut {

std::string one_line(const std::exception& exception) {
  constexpr std::size_t kMostBytes = 400;
  std::istringstream lines(exception.what());
  std::string joined;
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("Exception from ") ||
        line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    if (!joined.empty()) joined += ' ';
    joined += line;
  }
  if (joined.empty()) joined = "no message";
  if (joined.size() > kMostBytes) joined = joined.substr(0, kMostBytes) + "...";
  return joined;
}

}  // namespace paceline::cut
