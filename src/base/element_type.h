// Element types of tensors that cross a boundary (wire, package, engine), independent of OpenVINO.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline {

/// The numbers are on the wire: never reuse one.
enum class ElementType : std::uint8_t {
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kI32 = 4,
  kI64 = 5,
  kU8 = 6,
  kI8 = 7,
};

/// e.g. "bf16"
std::string_view to_string(ElementType type);
std::optional<ElementType> element_type_from_number(std::uint32_t number);
std::size_t size_bytes(ElementType type);

}  // namespace paceline
