// A Hugging Face tokenizer.json from the vocabulary of a GGUF file.
//
// A GGUF names its pre-tokenizer and holds no rules; the rules here are those of the named models'
// own tokenizers. Not taken from llama.cpp where the two differ (it leaves out Qwen2's NFC).
#pragma once

#include <cstddef>
#include <string>

#include "base/error.h"
#include "model/vocabulary.h"

namespace paceline::text {

/// Longest token that is taken; the longest known has 512 bytes.
inline constexpr std::size_t kMaxTokenBytes = 1024;

/// The tokenizer.json of `vocabulary`: its token ids are kept as they are; control and unknown
/// tokens become special, user-defined ones added tokens; BOS and EOS are added as the file says.
///
/// - model "gpt2": byte-level BPE with the merges of the file. Pre-tokenizers: default, gpt-2,
///   smollm, starcoder, refact, llama-bpe (llama3, llama-v3), qwen2 (deepseek-r1-qwen).
/// - model "llama": SentencePiece BPE. SentencePiece joins the neighbours whose joint token has the
///   highest score; so the merges are all splits of each token into two tokens, by falling score
///   (of equal scores the lower ids first, where SentencePiece takes the leftmost place).
///
/// kUnimplemented names another model or pre-tokenizer; kInvalidArgument names the GGUF key whose
/// value contradicts the rest.
Result<std::string> tokenizer_json_from(const model::Vocabulary& vocabulary);

}  // namespace paceline::text
