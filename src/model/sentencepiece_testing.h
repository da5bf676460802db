// Writes SentencePiece models for tests: right by default, wrong where a test says so.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/vocabulary.h"

namespace paceline::model {

inline std::string protobuf_varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes.push_back(static_cast<char>(value | 0x80U));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

inline std::string protobuf_number(std::uint32_t field, std::uint64_t value) {
  return protobuf_varint(field << 3U) + protobuf_varint(value);
}

inline std::string protobuf_bytes(std::uint32_t field, std::string_view bytes) {
  return protobuf_varint(field << 3U | 2U) + protobuf_varint(bytes.size()) + std::string(bytes);
}

inline std::string protobuf_float(std::uint32_t field, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::string bytes = protobuf_varint(field << 3U | 5U);
  for (unsigned shift = 0; shift < 32; shift += 8) {
    bytes.push_back(static_cast<char>(bits >> shift));
  }
  return bytes;
}

/// The specifications' fields as protobuf has them, appended to what a BPE model needs: of two
/// values of one field, the last counts.
struct SentencePieceExtras {
  std::string trainer;
  std::string normalizer;
};

inline std::string write_sentencepiece(const Vocabulary& vocabulary,
                                       const SentencePieceExtras& extras = {}) {
  std::string model;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    std::string piece =
        protobuf_bytes(1, vocabulary.tokens[i]) + protobuf_float(2, vocabulary.scores[i]);
    const auto type = static_cast<std::uint64_t>(vocabulary.token_types[i]);
    if (type != 1) piece += protobuf_number(3, type);
    model += protobuf_bytes(1, piece);
  }
  std::string trainer = protobuf_bytes(1, "corpus.txt") + protobuf_number(3, 2);
  const auto id = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  trainer += protobuf_number(40, id(vocabulary.unknown_id));
  trainer += protobuf_number(41, id(vocabulary.bos_id));
  trainer += protobuf_number(42, id(vocabulary.eos_id));
  std::string normalizer = protobuf_bytes(1, "identity");
  normalizer += protobuf_number(3, vocabulary.add_space_prefix ? 1 : 0) + protobuf_number(4, 0);
  return model + protobuf_bytes(2, trainer + extras.trainer) +
         protobuf_bytes(3, normalizer + extras.normalizer);
}

}  // namespace paceline::model
