// SentencePiece models (tokenizer.model): the vocabulary of Llama 2, Mistral, Phi-3 and Gemma.
//
// Not a tokenizer: text/tokenizer_json.h makes one from the vocabulary, as from a GGUF's.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "model/vocabulary.h"

namespace paceline::model {

/// Most pieces that are read; the largest known vocabulary has 262144.
inline constexpr std::size_t kMaxPieces = std::size_t{1} << 20;

/// The vocabulary of a serialized ModelProto, with model "llama". BPE alone: kUnimplemented names
/// unigram, word and character models, and normalizations that would change the text (compiled
/// character tables, spaces taken out). kDataLoss for bytes that are no such message.
Result<Vocabulary> parse_sentencepiece(std::string_view bytes);

/// The same from a file; errors name it.
Result<Vocabulary> read_sentencepiece(const std::filesystem::path& path);

}  // namespace paceline::model
