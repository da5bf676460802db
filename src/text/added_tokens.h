// The tokens that are found in the text as they stand, before any rule applies.
// Private to this folder.
#pragma once

#include <nlohmann/json.hpp>

#include "model/vocabulary.h"

namespace paceline::text {

/// The "added_tokens" of a tokenizer.json: control, unknown, BOS and EOS tokens as special ones,
/// user-defined ones beside them. A GGUF does not say which of them take the whitespace around them
/// along; Phi's do, and are known by the architecture.
nlohmann::ordered_json added_tokens(const model::Vocabulary& vocabulary);

}  // namespace paceline::text
