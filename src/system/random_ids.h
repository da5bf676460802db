// Ids and seeds that nobody can guess or meets twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::system {

std::string random_hex(std::size_t digits);
/// `prefix` and 24 digits.
std::string random_id(std::string_view prefix);
std::uint64_t random_seed();

}  // namespace paceline::system
