// The text part of a Hugging Face directory: tokenizer, special tokens, chat template.
//
// Not weights, graph or configuration; hf_package.h has the whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"

namespace paceline::compiler {

struct HfText {
  /// What tokenizer_config.json calls the end of a text, where the tokenizer has it: chat models
  /// end with it though their config.json may name another.
  std::optional<std::int64_t> eos_id;
};

/// Writes into `directory` what `source` says of text:
/// - tokenizer.json as it is, after it was loaded once; where there is none, one made from the
///   SentencePiece vocabulary in tokenizer.model and the added tokens of tokenizer_config.json;
/// - tokenizer_config.json and special_tokens_map.json; the first has the special tokens even where
///   only the second names them, and the chat template;
/// - chat_template.jinja, from the file of that name, from chat_template.json, or from
///   tokenizer_config.json: a string, or of several named templates the one named "default".
///
/// `architecture` stands for rules that no file says. Errors name file and field; kNotFound where
/// there is neither tokenizer.json nor tokenizer.model, with what to do.
Result<HfText> write_hf_text(const std::filesystem::path& source, const std::string& architecture,
                             const std::filesystem::path& directory);

}  // namespace paceline::compiler
