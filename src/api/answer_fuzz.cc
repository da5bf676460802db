// libFuzzer target of what models say: an answer's parts are the same however its text was divided.
// The first byte chooses the format, the second where it is divided.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/answer_parser.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::api;
  if (size < 2) return 0;
  AnswerParserOptions options;
  options.tools = static_cast<ToolFormat>(data[0] % 5);
  options.begins_in_reasoning = (data[0] & 0x80U) != 0;
  options.tool_names = {"f"};
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  AnswerParser at_once(options);
  AnswerDelta whole = at_once.push(text);
  whole.append(at_once.finish());
  AnswerParser divided(options);
  const std::size_t step = data[1] % 16U + 1;
  AnswerDelta parts;
  for (std::size_t at = 0; at < text.size(); at += step) {
    parts.append(divided.push(text.substr(at, step)));
  }
  parts.append(divided.finish());
  PACELINE_CHECK(whole == parts);
  PACELINE_CHECK(at_once.has_tool_calls() == !whole.tool_calls.empty());
  return 0;
}
