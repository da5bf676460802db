// Any bytes as a GGUF file: opened, then asked for all that a compilation asks for.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/gguf.h"
#include "model/tensor_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const auto file =
      paceline::model::GgufFile::from_memory("fuzz", std::vector<std::byte>(begin, begin + size));
  if (!file) return 0;
  (void)(*file)->decoder_config().has_value();
  (void)(*file)->vocabulary().has_value();
  for (const auto& tensor : (*file)->tensors()) paceline::model::stored_values(**file, tensor);
  return 0;
}
