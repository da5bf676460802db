// The small files of a package that the front end reads: tokenizer, end tokens, chat template.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "base/error.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace paceline::cli {

inline constexpr char kTokenizerFile[] = "tokenizer.json";

/// kNotFound says that the package has no tokenizer.json.
Result<text::Tokenizer> load_tokenizer(const std::filesystem::path& package);

/// Whether every id means the same text in both. kInvalidArgument names the first that does not.
Status check_same_tokens(const text::Tokenizer& draft, const text::Tokenizer& model);

/// eos_token_id of generation_config.json, a number or a list; of config.json where that has none.
Result<std::set<std::int64_t>> read_end_tokens(const std::filesystem::path& package);

struct ChatFormat {
  text::ChatTemplate chat_template;
  std::string bos_token;
  std::string eos_token;
  std::string source;  ///< of the template
};

/// chat_template.jinja, or chat_template in tokenizer_config.json.
Result<ChatFormat> load_chat_format(const std::filesystem::path& package);

}  // namespace paceline::cli
