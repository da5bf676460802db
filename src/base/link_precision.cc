#include "base/link_precision.h"

namespace paceline {

std::string_view to_string(LinkPrecision precision) {
  return precision == LinkPrecision::kNative ? "native" : "int8";
}

std::optional<LinkPrecision> link_precision_from_string(std::string_view name) {
  if (name == "native") return LinkPrecision::kNative;
  if (name == "int8") return LinkPrecision::kInt8;
  return std::nullopt;
}

}  // namespace paceline
