// The body of POST /v1/embeddings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/prompt_text.h"

namespace paceline::api {

struct EmbeddingRequest {
  static constexpr std::size_t kMaxInputs = 2048;

  std::string model;               ///< empty: the default one
  std::vector<PromptText> inputs;  ///< one or more, none empty
  bool is_base64 = false;          ///< else numbers
  std::optional<std::uint64_t> dimensions;
  bool add_special_tokens = true;  ///< to inputs that are text
  std::string cache_salt;
  std::int32_t priority = 0;
};

Parsed<EmbeddingRequest> parse_embedding_request(std::string_view body);

/// 400, code "unsupported_model": what the model's chain cannot give, and why.
ApiError no_embeddings(std::string_view model, std::string_view why);

/// 400 where `dimensions` asks for another size than the model's, or all vectors together have more
/// values than an answer may.
std::optional<ApiError> check_size(const EmbeddingRequest& request, std::uint64_t width);

}  // namespace paceline::api
