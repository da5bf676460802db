// The two promises a chain can make about its arithmetic.
#pragma once

#include <optional>
#include <string_view>

namespace paceline {

enum class Profile {
  kFast,   ///< bf16 where the device has it, dynamic quantization, KV u8 by token
  kExact,  ///< f32, no dynamic quantization: bitwise the same alone, batched, split, recovered
};

std::string_view to_string(Profile profile);
std::optional<Profile> profile_from_string(std::string_view name);

}  // namespace paceline
