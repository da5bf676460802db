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
/// tokens become special, user-defined ones added tokens; BOS and EOS are added as the file says,
/// or as its pre-tokenizer's models do where it says nothing.
///
/// - model "gpt2": byte-level BPE with the merges of the file. Pre-tokenizers: gpt-2, smollm,
///   starcoder, refact (Granite), llama-bpe (llama3, llama-v3), qwen2 (deepseek-r1-qwen), dbrx
///   (OLMo 2, Phi-4), gpt-4o (Phi-4-mini), tekken (Mistral), deepseek-v3.
/// - model "llama": SentencePiece BPE (Llama 2, Mistral, Phi-3, Gemma). SentencePiece joins the
///   neighbours whose joint token has the highest score; so the merges are all splits of each token
///   into two tokens, by falling score.
///
/// kUnimplemented names another model or pre-tokenizer; kInvalidArgument names the GGUF key whose
/// value contradicts the rest.
Result<std::string> tokenizer_json_from(model::Vocabulary vocabulary);

}  // namespace paceline::text
