// Log-probabilities as clients get them: of chat answers, and the older form of completions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::api {

/// A token is bytes: a character may be split over several.
struct TokenChance {
  std::string bytes;
  float logprob = 0;
  friend bool operator==(const TokenChance&, const TokenChance&) = default;
};

struct TokenEntry {
  TokenChance token;
  bool has_logprob = true;  ///< a prompt's first token has none
  std::vector<TokenChance> top = {};
  friend bool operator==(const TokenEntry&, const TokenEntry&) = default;
};

/// As text: itself where it is UTF-8, else each byte as \xNN.
std::string token_text(std::string_view bytes);

/// {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal": null}.
nlohmann::ordered_json chat_logprobs(std::span<const TokenEntry> entries);

/// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; offsets in characters, from
/// `offset` on. top_logprobs is null without `has_top`.
nlohmann::ordered_json completion_logprobs(std::span<const TokenEntry> entries, std::size_t offset,
                                           bool has_top);

/// Unicode characters; a broken byte counts as one.
std::size_t characters(std::string_view text);

}  // namespace paceline::api
