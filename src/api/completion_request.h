// The bodies of POST /v1/completions, /tokenize and /detokenize: text or token ids, no
// conversation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/chat_request.h"
#include "api/generation_fields.h"
#include "api/prompt_text.h"

namespace paceline::api {

struct CompletionRequest {
  static constexpr std::size_t kMaxAnswers = 1024;  ///< prompts times n
  static constexpr std::uint32_t kDefaultTokens = 16;

  GenerationFields generation;
  std::vector<PromptText> prompts;  ///< one or more, none empty
  bool echo = false;                ///< the prompt is part of the answer's text
  bool add_special_tokens = true;   ///< to prompts that are text
};

Parsed<CompletionRequest> parse_completion_request(std::string_view body);

struct TokenizeRequest {
  std::string model;
  std::optional<ChatPrompt> chat;  ///< else the text
  std::string text;
  bool add_special_tokens = true;
  bool return_token_strings = false;
};

Parsed<TokenizeRequest> parse_tokenize_request(std::string_view body);

struct DetokenizeRequest {
  std::string model;
  TokenIds tokens;
};

Parsed<DetokenizeRequest> parse_detokenize_request(std::string_view body);

}  // namespace paceline::api
