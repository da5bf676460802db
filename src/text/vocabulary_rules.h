// A GGUF's vocabulary checked, and completed by what its models are known to do where the file is
// silent. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "model/vocabulary.h"

namespace paceline::text {

/// The values of tokenizer.ggml.token_type.
enum TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

/// How SentencePiece writes a space: U+2581.
inline constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";

/// Views into the vocabulary that they were made of.
using TokenIds = std::unordered_map<std::string_view, std::size_t>;

/// kInvalidArgument names the key whose value contradicts the rest: types, ids, scores.
Status check_vocabulary(const model::Vocabulary& vocabulary);

/// The tokens with their ids, each checked: UTF-8, bounded, unlike all others.
Result<TokenIds> token_ids_of(const model::Vocabulary& vocabulary);

/// Fills in, for a checked vocabulary, whether BOS and EOS are added and which token is the unknown
/// one, and spells Gemma's whitespace as its own tokenizer does: a file has runs of spaces where
/// that has runs of U+2581, and older ones know the tab by its byte alone.
void complete(model::Vocabulary& vocabulary, bool adds_bos);

}  // namespace paceline::text
