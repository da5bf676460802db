// In what precision activations travel between the stages of a chain.
#pragma once

#include <optional>
#include <string_view>

namespace paceline {

enum class LinkPrecision {
  kNative,  ///< as the stages compute: bf16, or f32
  kInt8,    ///< 8 bits per value and a scale per group of values: half the bytes of bf16
};

std::string_view to_string(LinkPrecision precision);
std::optional<LinkPrecision> link_precision_from_string(std::string_view name);

}  // namespace paceline
