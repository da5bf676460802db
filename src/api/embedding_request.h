// The body of POST /v1/embeddings, which is read in order to be refused for the right reason.
#pragma once

#include <string>
#include <string_view>

#include "api/fields.h"

namespace paceline::api {

struct EmbeddingRequest {
  std::string model;  ///< empty: the default one
};

Parsed<EmbeddingRequest> parse_embedding_request(std::string_view body);

/// 400, code "unsupported_model": what the model has no output for.
ApiError no_embeddings(std::string_view model);

}  // namespace paceline::api
