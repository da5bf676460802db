// libFuzzer target of forms: parts lie inside the body, and their names are within bounds.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "batch/multipart.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  const std::string_view head = text.substr(0, line);
  const std::string_view body =
      line == std::string_view::npos ? std::string_view() : text.substr(line + 1);
  for (const std::string_view type : {head, std::string_view("multipart/form-data; boundary=x")}) {
    const auto parts = paceline::batch::read_form(type, body);
    if (!parts) continue;
    PACELINE_CHECK(parts->size() <= 32);
    for (const auto& part : *parts) {
      PACELINE_CHECK(!part.name.empty() && part.name.size() <= 512);
      PACELINE_CHECK(part.content.data() >= body.data() &&
                     part.content.data() + part.content.size() <= body.data() + body.size());
    }
  }
  return 0;
}
