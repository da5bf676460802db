// libFuzzer target of the safetensors header: what it accepts lies in the file, without overlaps.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::model;
  if (size < 1) return 0;
  const std::uint64_t data_bytes = data[0];  // small enough for shapes to be guessed
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::uint64_t file_bytes = kSafetensorsPrefixBytes + text.size() + data_bytes;
  const auto header = parse_safetensors_header(text, file_bytes);
  if (!header) return 0;
  std::uint64_t end = kSafetensorsPrefixBytes + text.size();
  for (std::size_t i = 0; i < header->tensors.size(); ++i) {
    PACELINE_CHECK(header->offsets[i] == end);
    end += header->tensors[i].size_bytes;
  }
  PACELINE_CHECK(end == file_bytes);
  return 0;
}
