// Text to token ids and back, by a Hugging Face tokenizer.json.
//
// Not a maker of such files: tokenizer_json.h makes one from GGUF metadata.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/error.h"

struct PacelineTokenizer;

namespace paceline::text {

/// One vocabulary with its rules. Immutable after load; move-only; thread-safe.
class Tokenizer {
 public:
  /// Largest tokenizer.json that is read; the largest known have some 35 MB.
  static constexpr std::uint64_t kMaxFileBytes = std::uint64_t{256} << 20;

  /// kNotFound, or kInvalidArgument for what is no tokenizer.json; the message names the file.
  static Result<Tokenizer> load(const std::filesystem::path& tokenizer_json);
  /// The same from the file's content.
  static Result<Tokenizer> parse(std::string_view json);

  /// The ids of `utf8`, of any length. Special tokens spelled out in the text become their ids.
  /// Bytes that are no UTF-8 are read as U+FFFD. With `add_special_tokens`, what the
  /// post-processor adds (usually the BOS token) is there too.
  Result<std::vector<std::int64_t>> encode(std::string_view utf8, bool add_special_tokens) const;

  /// The text of `ids`; always UTF-8. Ids within 32 bits that no token has give nothing
  /// (models pad their vocabulary); others are kOutOfRange.
  Result<std::string> decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const;

  /// The bytes that a token stands for by itself: not always UTF-8, as a character may be split
  /// over tokens. Nothing for an id without a token.
  std::string token_bytes(std::int64_t id) const;

  /// The highest id plus one.
  std::int64_t vocabulary_size() const;

  /// The id of a token as the vocabulary spells it, e.g. "<|im_end|>".
  std::optional<std::int64_t> token_id(std::string_view token) const;

  /// Whether `id` is left out of decode() with skip_special_tokens.
  bool is_special(std::int64_t id) const { return special_ids_.contains(id); }

 private:
  friend class GrammarVocabulary;
  struct Free {
    void operator()(PacelineTokenizer* tokenizer) const;
  };
  explicit Tokenizer(PacelineTokenizer* handle) : handle_(handle) {}

  std::unique_ptr<PacelineTokenizer, Free> handle_;
  std::unordered_set<std::int64_t> special_ids_;
};

}  // namespace paceline::text
