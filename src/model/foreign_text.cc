#include "model/foreign_text.h"

#include <fmt/format.h>

#include <iterator>

namespace paceline::model {

std::string in_quotes(std::string_view text, std::size_t max_bytes) {
  std::string result = "\"";
  for (const char character : text.substr(0, max_bytes)) {
    const auto byte = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      result += '\\';
      result += character;
    } else if (byte < 0x20 || byte >= 0x7f) {
      fmt::format_to(std::back_inserter(result), "\\x{:02x}", byte);
    } else {
      result += character;
    }
  }
  result += text.size() > max_bytes ? "\"..." : "\"";
  return result;
}

}  // namespace paceline::model
