#include "wire/text.h"

#include <cstdint>

namespace paceline::wire {
namespace {

struct Lead {
  std::size_t length;
  std::uint32_t bits;
  std::uint32_t lowest;  ///< smallest code point that needs this length
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, byte, 0};
  if (byte >= 0xc2 && byte < 0xe0) return {2, byte & 0x1fU, 0x80};
  if (byte >= 0xe0 && byte < 0xf0) return {3, byte & 0x0fU, 0x800};
  if (byte >= 0xf0 && byte < 0xf5) return {4, byte & 0x07U, 0x10000};
  return {0, 0, 0};
}

/// Bytes of the valid character at the start of `text` (not empty); 0 where there is none.
std::size_t valid_prefix(std::string_view text) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.length == 0 || lead.length > text.size()) return 0;
  std::uint32_t code = lead.bits;
  for (std::size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0U) != 0x80U) return 0;
    code = (code << 6U) | (byte & 0x3fU);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  if (code < lead.lowest || code > 0x10ffff || surrogate || control) return 0;
  return lead.length;
}

}  // namespace

bool is_valid_text(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = valid_prefix(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string clean_text(std::string_view text, std::size_t max_bytes) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = valid_prefix(text);
    const std::size_t taken = length == 0 ? 1 : length;
    if (clean.size() + taken > max_bytes) break;
    if (length == 0) {
      clean += '?';
    } else {
      clean += text.substr(0, length);
    }
    text.remove_prefix(taken);
  }
  return clean;
}

}  // namespace paceline::wire
