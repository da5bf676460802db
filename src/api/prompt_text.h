// What is to be read by the model: text or token ids, one or several. Of completions and
// embeddings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/fields.h"

namespace paceline::api {

using TokenIds = std::vector<std::int64_t>;
using PromptText = std::variant<std::string, TokenIds>;

/// Nothing where it is no array of ids, or an empty one.
std::optional<TokenIds> token_ids(const Json& value);

/// A field that must be there: a string, an array of strings, token ids, or an array of arrays of
/// token ids. Strings may be empty; of texts there are at most `most`.
std::vector<PromptText> read_prompts(Fields& fields, const char* name, std::size_t most);

}  // namespace paceline::api
