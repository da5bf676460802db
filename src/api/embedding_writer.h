// The answer to POST /v1/embeddings, as text: a million numbers would be tens of megabytes as a
// tree.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/responses.h"

namespace paceline::api {

/// To the length 1, as OpenAI's are. False where it has no direction: all values 0, or one that is
/// no number.
bool normalise(std::span<float> vector);

/// {"object": "embedding", "index", "embedding"}: numbers, each in the fewest digits that give it
/// back, or the little-endian f32 in base64.
std::string embedding_item(std::size_t index, std::span<const float> vector, bool is_base64);

/// {"object": "list", "data", "model", "usage"} of items in their order.
std::string embedding_list(std::span<const std::string> items, std::string_view model,
                           const Usage& usage);

}  // namespace paceline::api
