#include "model/gguf_tokens.h"

#include <algorithm>
#include <array>
#include <string>

#include "model/foreign_text.h"

namespace paceline::model {
namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr std::array<const char*, 3> kEndingKeys = {
    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
constexpr std::array<std::string_view, 5> kEndsOfTurn = {"<|eot_id|>", "<|eom_id|>", "<|im_end|>",
                                                         "<|end|>", "<end_of_turn>"};

void add_once(std::int64_t id, std::vector<std::int64_t>& ids) {
  if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

}  // namespace

Result<std::int64_t> gguf_token_id(const GgufFile& file, std::string_view key,
                                   std::uint64_t tokens) {
  if (!file.has(key)) return -1;
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t id, file.unsigned_value(key));
  if (id < tokens) return static_cast<std::int64_t>(id);
  return fail(ErrorCode::kDataLoss, "{}: metadata {}: is {}, expected less than the {} tokens",
              file.name(), in_quotes(key), id, tokens);
}

Result<std::vector<std::int64_t>> gguf_ending_tokens(const GgufFile& file, std::uint64_t tokens) {
  std::vector<std::int64_t> ids;
  for (const char* key : kEndingKeys) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t id, gguf_token_id(file, key, tokens));
    add_once(id, ids);
  }
  if (!file.has(kTokens)) return ids;
  PACELINE_ASSIGN_OR_RETURN(const auto texts, file.string_array(kTokens));
  const auto count = std::min<std::uint64_t>(texts.size(), tokens);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (std::find(kEndsOfTurn.begin(), kEndsOfTurn.end(), texts[i]) == kEndsOfTurn.end()) continue;
    add_once(static_cast<std::int64_t>(i), ids);
  }
  return ids;
}

}  // namespace paceline::model
