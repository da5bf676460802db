// Ids and seeds that nobody can guess or meets twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace paceline::serve {

std::string random_hex(std::size_t digits);
std::uint64_t random_seed();

}  // namespace paceline::serve
