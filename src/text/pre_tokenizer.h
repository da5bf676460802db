// How the byte-level BPE models that a GGUF names divide text before their merges apply.
// Private to this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace paceline::text {

/// The parts of a tokenizer.json that tokenizer.ggml.pre stands for.
struct PreTokenizer {
  nlohmann::ordered_json normalizer;
  nlohmann::ordered_json pre_tokenizer;
  bool ignore_merges = false;  ///< a piece that is a token as it stands is not merged anew
  bool adds_bos = false;       ///< what its models do where the file does not say
};

/// kUnimplemented names a missing or unknown `name`, and "default", which stands for no rules.
Result<PreTokenizer> pre_tokenizer_named(std::string_view name);

}  // namespace paceline::text
