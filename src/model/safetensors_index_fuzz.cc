// libFuzzer target of the index of parts: no name that it accepts leaves the directory.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/check.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto index = paceline::model::parse_safetensors_index(
      std::string_view(reinterpret_cast<const char*>(data), size));
  if (!index) return 0;
  for (const auto& [tensor, file] : index->parts) {
    const auto path = std::filesystem::path("directory") / file;
    PACELINE_CHECK(path.lexically_normal().parent_path() == "directory");
  }
  return 0;
}
