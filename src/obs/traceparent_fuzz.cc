// libFuzzer target: any text is a traceparent that is written again as it was, or none.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "obs/trace_context.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto context = paceline::obs::parse_traceparent(text);
  if (!context) return 0;
  // Of the flags only the last bit is kept, and of later versions what version 00 has.
  const std::string again = paceline::obs::format_traceparent(*context);
  if (again.substr(3, 50) != text.substr(3, 50)) std::abort();
  if (paceline::obs::parse_traceparent(again) != context) std::abort();
  return 0;
}
