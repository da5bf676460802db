// Bytes as hex digits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace paceline {

/// Two digits a byte, letters in lower case.
inline std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace paceline
