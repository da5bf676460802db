// libFuzzer target of the parser of a compiled form's description: no input crashes it, and what it
// accepts survives being written and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "shard/form_cache.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using paceline::shard::parse_form_header;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto header = parse_form_header(text);
  if (!header) return 0;
  PACELINE_CHECK(form_difference(header->identity, header->identity).empty());
  const auto trailer = form_trailer(*header);
  if (!trailer) return 0;  // too long
  const auto again = parse_form_header(*trailer);
  PACELINE_CHECK(again.has_value());
  // Text that is no UTF-8 is written with replacements, once.
  PACELINE_CHECK(*form_trailer(*again) == *trailer);
  return 0;
}
