#include "base/element_type.h"

#include <array>

namespace paceline {
namespace {

struct Row {
  std::string_view name;
  std::size_t size_bytes;
};
// Indexed by the enumerator's number; 0 is no type.
constexpr std::array<Row, 8> kRows = {
    {{"", 0}, {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"i32", 4}, {"i64", 8}, {"u8", 1}, {"i8", 1}}};

}  // namespace

std::string_view to_string(ElementType type) { return kRows[static_cast<std::size_t>(type)].name; }

std::optional<ElementType> element_type_from_number(std::uint32_t number) {
  if (number == 0 || number >= kRows.size()) return std::nullopt;
  return static_cast<ElementType>(number);
}

std::size_t size_bytes(ElementType type) { return kRows[static_cast<std::size_t>(type)].size_bytes; }

}  // namespace paceline
