#include "text/vocabulary_rules.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/utf8.h"
#include "text/tokenizer_json.h"

namespace paceline::text {
namespace {

Status check_size(std::string_view key, std::size_t size, std::size_t expected) {
  if (size == expected) return {};
  return fail(ErrorCode::kInvalidArgument,
              "{}: has {} elements, expected {} as tokenizer.ggml.tokens", key, size, expected);
}

Status check_id(std::string_view key, std::int64_t id, const model::Vocabulary& vocabulary) {
  const auto count = static_cast<std::int64_t>(vocabulary.tokens.size());
  if (id >= -1 && id < count) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: is {}, expected 0 to {}", key, id, count - 1);
}

Status check_types(const model::Vocabulary& vocabulary) {
  if (vocabulary.token_types.empty()) return {};
  PACELINE_RETURN_IF_ERROR(check_size("tokenizer.ggml.token_type", vocabulary.token_types.size(),
                                      vocabulary.tokens.size()));
  for (std::size_t i = 0; i < vocabulary.token_types.size(); ++i) {
    const std::int32_t type = vocabulary.token_types[i];
    if (type < kNormal || type > kByte) {
      return fail(ErrorCode::kInvalidArgument,
                  "tokenizer.ggml.token_type[{}]: is {}, expected 1 to 6", i, type);
    }
  }
  return {};
}

Status check_scores(const model::Vocabulary& vocabulary) {
  PACELINE_RETURN_IF_ERROR(
      check_size("tokenizer.ggml.scores", vocabulary.scores.size(), vocabulary.tokens.size()));
  for (std::size_t i = 0; i < vocabulary.scores.size(); ++i) {
    if (std::isnan(vocabulary.scores[i])) {
      return fail(ErrorCode::kInvalidArgument, "tokenizer.ggml.scores[{}]: is not a number", i);
    }
  }
  return {};
}

Status check_ids(const model::Vocabulary& vocabulary) {
  PACELINE_RETURN_IF_ERROR(check_id("tokenizer.ggml.bos_token_id", vocabulary.bos_id, vocabulary));
  PACELINE_RETURN_IF_ERROR(check_id("tokenizer.ggml.eos_token_id", vocabulary.eos_id, vocabulary));
  PACELINE_RETURN_IF_ERROR(
      check_id("tokenizer.ggml.unknown_token_id", vocabulary.unknown_id, vocabulary));
  PACELINE_RETURN_IF_ERROR(
      check_id("tokenizer.ggml.padding_token_id", vocabulary.padding_id, vocabulary));
  if (vocabulary.add_bos.value_or(false) && vocabulary.bos_id < 0) {
    return fail(ErrorCode::kInvalidArgument,
                "tokenizer.ggml.bos_token_id: is missing, but tokenizer.ggml.add_bos_token is set");
  }
  if (vocabulary.add_eos.value_or(false) && vocabulary.eos_id < 0) {
    return fail(ErrorCode::kInvalidArgument,
                "tokenizer.ggml.eos_token_id: is missing, but tokenizer.ggml.add_eos_token is set");
  }
  return {};
}

void spell_as_gemma(model::Vocabulary& vocabulary) {
  for (std::size_t id = 0; id < vocabulary.token_types.size(); ++id) {
    std::string& token = vocabulary.tokens[id];
    if (vocabulary.token_types[id] != kUserDefined || token.empty()) continue;
    if (token.find_first_not_of(' ') != std::string::npos) continue;
    std::string escaped;
    for (std::size_t i = 0; i < token.size(); ++i) escaped += kEscapedSpace;
    token = std::move(escaped);
  }
  if (std::ranges::find(vocabulary.tokens, "\t") != vocabulary.tokens.end()) return;
  const auto tab = std::ranges::find(vocabulary.tokens, "<0x09>");
  if (tab != vocabulary.tokens.end()) *tab = "\t";
}

}  // namespace

Status check_vocabulary(const model::Vocabulary& vocabulary) {
  if (vocabulary.tokens.empty()) {
    return fail(ErrorCode::kInvalidArgument, "tokenizer.ggml.tokens: is empty");
  }
  PACELINE_RETURN_IF_ERROR(check_types(vocabulary));
  if (vocabulary.model == "llama") PACELINE_RETURN_IF_ERROR(check_scores(vocabulary));
  return check_ids(vocabulary);
}

Result<TokenIds> token_ids_of(const model::Vocabulary& vocabulary) {
  TokenIds ids;
  ids.reserve(vocabulary.tokens.size());
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& token = vocabulary.tokens[i];
    if (token.size() > kMaxTokenBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  "tokenizer.ggml.tokens[{}]: has {} bytes, expected at most {}", i, token.size(),
                  kMaxTokenBytes);
    }
    if (!is_utf8(token)) {
      return fail(ErrorCode::kInvalidArgument, "tokenizer.ggml.tokens[{}]: is not UTF-8", i);
    }
    const auto [place, is_new] = ids.emplace(token, i);
    if (!is_new) {
      return fail(ErrorCode::kInvalidArgument, "tokenizer.ggml.tokens[{}]: repeats token {}", i,
                  place->second);
    }
  }
  return ids;
}

void complete(model::Vocabulary& vocabulary, bool adds_bos) {
  vocabulary.add_bos = vocabulary.add_bos.value_or(adds_bos && vocabulary.bos_id >= 0);
  vocabulary.add_eos = vocabulary.add_eos.value_or(false);
  if (vocabulary.unknown_id < 0) {
    const auto unknown = std::ranges::find(vocabulary.token_types, kUnknown);
    if (unknown != vocabulary.token_types.end()) {
      vocabulary.unknown_id = unknown - vocabulary.token_types.begin();
    }
  }
  if (vocabulary.model == "llama" && vocabulary.architecture.starts_with("gemma")) {
    spell_as_gemma(vocabulary);
  }
}

}  // namespace paceline::text
