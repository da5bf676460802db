// libFuzzer target: /metrics of any server.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "obs/metrics_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = paceline::obs::MetricsText::parse(text);
  if (parsed) (void)parsed->values_of("stage", "a", {});
  return 0;
}
