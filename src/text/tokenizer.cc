#include "text/tokenizer.h"

#include <limits>

#include "system/files.h"
#include "text/border.h"

namespace paceline::text {

void Tokenizer::Free::operator()(PacelineTokenizer* tokenizer) const {
  paceline_tokenizer_free(tokenizer);
}

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  PACELINE_ASSIGN_OR_RETURN(const std::string json,
                            system::read_text_file(tokenizer_json, kMaxFileBytes));
  auto tokenizer = parse(json);
  if (!tokenizer) return fail(tokenizer.error().with_context(tokenizer_json.string()));
  return tokenizer;
}

Result<Tokenizer> Tokenizer::parse(std::string_view json) {
  OwnedText error;
  PacelineTokenizer* handle = nullptr;
  const auto status = status_from(
      paceline_tokenizer_new(json.data(), json.size(), &handle, error.receive()), error);
  if (!status) return fail(status.error().with_context("no tokenizer.json"));
  Tokenizer tokenizer(handle);
  OwnedIds special;
  PACELINE_RETURN_IF_ERROR(status_from(
      paceline_tokenizer_special_ids(handle, special.receive(), error.receive()), error));
  tokenizer.special_ids_.insert(special.begin(), special.end());
  return tokenizer;
}

Result<std::vector<std::int64_t>> Tokenizer::encode(std::string_view utf8,
                                                    bool add_special_tokens) const {
  OwnedText error;
  OwnedIds ids;
  const auto status =
      status_from(paceline_tokenizer_encode(handle_.get(), utf8.data(), utf8.size(),
                                            add_special_tokens, ids.receive(), error.receive()),
                  error);
  if (!status) return fail(status.error().with_context("tokenizer"));
  return std::vector<std::int64_t>(ids.begin(), ids.end());
}

Result<std::string> Tokenizer::decode(std::span<const std::int64_t> ids,
                                      bool skip_special_tokens) const {
  std::vector<std::uint32_t> narrow;
  narrow.reserve(ids.size());
  for (const std::int64_t id : ids) {
    if (id < 0 || id > std::numeric_limits<std::uint32_t>::max()) {
      return fail(ErrorCode::kOutOfRange, "token id {}: expected 0 to {}", id,
                  vocabulary_size() - 1);
    }
    narrow.push_back(static_cast<std::uint32_t>(id));
  }
  OwnedText error;
  OwnedText text;
  const auto status =
      status_from(paceline_tokenizer_decode(handle_.get(), narrow.data(), narrow.size(),
                                            skip_special_tokens, text.receive(), error.receive()),
                  error);
  if (!status) return fail(status.error().with_context("tokenizer"));
  return std::string(text.view());
}

std::string Tokenizer::token_bytes(std::int64_t id) const {
  if (id < 0 || id > std::numeric_limits<std::uint32_t>::max()) return {};
  OwnedText error;
  OwnedText bytes;
  (void)paceline_tokenizer_token_bytes(handle_.get(), static_cast<std::uint32_t>(id),
                                       bytes.receive(), error.receive());
  return std::string(bytes.view());
}

std::int64_t Tokenizer::vocabulary_size() const {
  return static_cast<std::int64_t>(paceline_tokenizer_vocabulary_size(handle_.get()));
}

std::optional<std::int64_t> Tokenizer::token_id(std::string_view token) const {
  const std::int64_t id = paceline_tokenizer_token_id(handle_.get(), token.data(), token.size());
  if (id < 0) return std::nullopt;
  return id;
}

}  // namespace paceline::text
