#include "compiler/openvino_error.h"

namespace paceline::compiler {

std::string one_line(std::string_view what) {
  constexpr std::size_t kMost = 300;
  std::string line;
  for (const char character : what) {
    const bool is_space = static_cast<unsigned char>(character) <= ' ';
    if (!is_space) {
      line += character;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
    if (line.size() >= kMost) break;
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace paceline::compiler
