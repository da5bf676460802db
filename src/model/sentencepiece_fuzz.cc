// Any bytes as a SentencePiece model.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/sentencepiece.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto vocabulary = paceline::model::parse_sentencepiece(bytes);
  return vocabulary && vocabulary->tokens.size() != vocabulary->scores.size() ? 1 : 0;
}
