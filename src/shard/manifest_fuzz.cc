// libFuzzer target of the manifest's parser: no input crashes it, and what it accepts survives
// being written and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "shard/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using paceline::shard::parse_manifest;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto manifest = parse_manifest(text);
  if (!manifest) return 0;
  auto again = parse_manifest(to_json(*manifest));
  PACELINE_CHECK(again.has_value());
  again->digest = manifest->digest;
  PACELINE_CHECK(*again == *manifest);
  for (const auto range : {manifest->all_layers(), paceline::LayerRange{0, 1}}) {
    PACELINE_CHECK(manifest->bytes_of(range) <= manifest->weight_bytes);
    (void)manifest->kv_bytes_per_token(range, 2);
  }
  return 0;
}
