#include "api/token_logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace paceline::api {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no infinity; what OpenAI gives for a token that cannot be.
constexpr double kLeast = -9999.0;

double finite(float logprob) { return std::isfinite(logprob) ? double{logprob} : kLeast; }

Json chance(const TokenChance& token) {
  Json bytes = Json::array();
  for (const char byte : token.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", token_text(token.bytes)},
          {"logprob", finite(token.logprob)},
          {"bytes", std::move(bytes)}};
}

}  // namespace

std::string token_text(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  std::string text;
  for (const char byte : bytes) {
    text += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  }
  return text;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

Json chat_logprobs(std::span<const TokenEntry> entries) {
  Json content = Json::array();
  for (const TokenEntry& entry : entries) {
    Json item = chance(entry.token);
    item["top_logprobs"] = Json::array();
    for (const TokenChance& other : entry.top) item["top_logprobs"].push_back(chance(other));
    content.push_back(std::move(item));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs(std::span<const TokenEntry> entries, std::size_t offset, bool has_top) {
  Json tokens = Json::array();
  Json chances = Json::array();
  Json top = Json::array();
  Json offsets = Json::array();
  for (const TokenEntry& entry : entries) {
    tokens.push_back(token_text(entry.token.bytes));
    chances.push_back(entry.has_logprob ? Json(finite(entry.token.logprob)) : Json());
    Json others = entry.has_logprob ? Json::object() : Json();
    if (entry.has_logprob) {
      // By text, so of those that read the same the likeliest is kept.
      for (const TokenChance& other : entry.top) {
        others.emplace(token_text(other.bytes), finite(other.logprob));
      }
      others.emplace(token_text(entry.token.bytes), finite(entry.token.logprob));
    }
    top.push_back(std::move(others));
    offsets.push_back(offset);
    offset += characters(entry.token.bytes);
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(chances)},
          {"top_logprobs", has_top ? std::move(top) : Json()},
          {"text_offset", std::move(offsets)}};
}

}  // namespace paceline::api
