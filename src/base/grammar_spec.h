// Which texts an answer may be: a grammar as who asks writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace paceline {

/// The numbers are on the wire: never reuse one; 0 is for none.
enum class GrammarKind : std::uint8_t {
  kJsonObject = 1,  ///< any JSON object; without text
  kJsonSchema = 2,
  kRegex = 3,  ///< that the whole answer matches; Rust's syntax
  kLark = 4,   ///< Lark's syntax, as llguidance reads it
};

struct GrammarSpec {
  static constexpr std::size_t kMaxTextBytes = std::size_t{64} << 10;

  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text;
  friend bool operator==(const GrammarSpec&, const GrammarSpec&) = default;
};

}  // namespace paceline
