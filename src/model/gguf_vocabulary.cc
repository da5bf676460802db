// What GGUF's keys of the tokenizer mean.
#include <string>

#include "model/foreign_text.h"
#include "model/gguf.h"
#include "model/gguf_tokens.h"

namespace paceline::model {
namespace {

/// An optional array that goes with the tokens, one for one.
template <typename T>
Status check_length(const GgufFile& file, std::string_view key, const std::vector<T>& values,
                    std::size_t tokens) {
  if (values.size() == tokens) return {};
  return fail(ErrorCode::kDataLoss, "{}: metadata {}: has {} elements, expected one of each of {}",
              file.name(), in_quotes(key), values.size(), tokens);
}

Status read_pieces(const GgufFile& file, Vocabulary& vocabulary) {
  constexpr const char* kScores = "tokenizer.ggml.scores";
  constexpr const char* kTypes = "tokenizer.ggml.token_type";
  constexpr const char* kMerges = "tokenizer.ggml.merges";
  PACELINE_ASSIGN_OR_RETURN(vocabulary.tokens, file.string_array("tokenizer.ggml.tokens"));
  const std::size_t count = vocabulary.tokens.size();
  if (file.has(kScores)) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.scores, file.float_array(kScores));
    PACELINE_RETURN_IF_ERROR(check_length(file, kScores, vocabulary.scores, count));
  }
  if (file.has(kTypes)) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.token_types, file.int_array(kTypes));
    PACELINE_RETURN_IF_ERROR(check_length(file, kTypes, vocabulary.token_types, count));
  }
  if (file.has(kMerges)) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.merges, file.string_array(kMerges));
  }
  return {};
}

Status read_special_ids(const GgufFile& file, Vocabulary& vocabulary) {
  const std::uint64_t count = vocabulary.tokens.size();
  const auto read = [&](std::string_view key, std::int64_t& id) -> Status {
    PACELINE_ASSIGN_OR_RETURN(id, gguf_token_id(file, key, count));
    return {};
  };
  PACELINE_RETURN_IF_ERROR(read("tokenizer.ggml.bos_token_id", vocabulary.bos_id));
  PACELINE_RETURN_IF_ERROR(read("tokenizer.ggml.eos_token_id", vocabulary.eos_id));
  PACELINE_RETURN_IF_ERROR(read("tokenizer.ggml.unknown_token_id", vocabulary.unknown_id));
  return read("tokenizer.ggml.padding_token_id", vocabulary.padding_id);
}

Status read_switches(const GgufFile& file, Vocabulary& vocabulary) {
  const auto read = [&](std::string_view key, auto& value) -> Status {
    if (!file.has(key)) return {};
    PACELINE_ASSIGN_OR_RETURN(value, file.bool_value(key));
    return {};
  };
  PACELINE_RETURN_IF_ERROR(read("tokenizer.ggml.add_bos_token", vocabulary.add_bos));
  PACELINE_RETURN_IF_ERROR(read("tokenizer.ggml.add_eos_token", vocabulary.add_eos));
  return read("tokenizer.ggml.add_space_prefix", vocabulary.add_space_prefix);
}

}  // namespace

Result<Vocabulary> GgufFile::vocabulary() const {
  Vocabulary vocabulary;
  if (has("general.architecture")) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.architecture, string_value("general.architecture"));
  }
  PACELINE_ASSIGN_OR_RETURN(vocabulary.model, string_value("tokenizer.ggml.model"));
  if (has("tokenizer.ggml.pre")) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.pre, string_value("tokenizer.ggml.pre"));
  }
  if (has("tokenizer.chat_template")) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.chat_template, string_value("tokenizer.chat_template"));
  }
  PACELINE_RETURN_IF_ERROR(read_pieces(*this, vocabulary));
  PACELINE_RETURN_IF_ERROR(read_special_ids(*this, vocabulary));
  PACELINE_RETURN_IF_ERROR(read_switches(*this, vocabulary));
  return vocabulary;
}

}  // namespace paceline::model
