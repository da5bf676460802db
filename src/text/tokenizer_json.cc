#include "text/tokenizer_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/foreign_text.h"
#include "text/merges.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

namespace paceline::text {
namespace {

using Json = nlohmann::ordered_json;

enum TokenType {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

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
  if (vocabulary.add_bos && vocabulary.bos_id < 0) {
    return fail(ErrorCode::kInvalidArgument,
                "tokenizer.ggml.bos_token_id: is missing, but tokenizer.ggml.add_bos_token is set");
  }
  if (vocabulary.add_eos && vocabulary.eos_id < 0) {
    return fail(ErrorCode::kInvalidArgument,
                "tokenizer.ggml.eos_token_id: is missing, but tokenizer.ggml.add_eos_token is set");
  }
  return {};
}

/// The tokens with their ids, each checked: UTF-8, bounded, unlike all others.
Result<TokenIds> token_ids_of(const model::Vocabulary& vocabulary) {
  if (vocabulary.tokens.empty()) {
    return fail(ErrorCode::kInvalidArgument, "tokenizer.ggml.tokens: is empty");
  }
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

/// 0 for an ordinary token.
int added_type(const model::Vocabulary& vocabulary, std::size_t id) {
  const auto number = static_cast<std::int64_t>(id);
  if (number == vocabulary.bos_id || number == vocabulary.eos_id) return kControl;
  if (vocabulary.token_types.empty()) return 0;
  const std::int32_t type = vocabulary.token_types[id];
  return type == kUnknown || type == kControl || type == kUserDefined ? type : 0;
}

Json added_tokens(const model::Vocabulary& vocabulary) {
  Json list = Json::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const int type = added_type(vocabulary, id);
    if (type == 0 || vocabulary.tokens[id].empty()) continue;
    list.push_back(Json{{"id", id},
                        {"content", vocabulary.tokens[id]},
                        {"single_word", false},
                        {"lstrip", false},
                        {"rstrip", false},
                        {"normalized", false},
                        {"special", type != kUserDefined}});
  }
  return list;
}

/// BOS before and EOS behind each sequence, as the file asks; null for neither.
Json post_processor(const model::Vocabulary& vocabulary) {
  if (!vocabulary.add_bos && !vocabulary.add_eos) return nullptr;
  Json special_tokens = Json::object();
  const auto add = [&](Json& sequence, std::int64_t id, int type) {
    const std::string& token = vocabulary.tokens[static_cast<std::size_t>(id)];
    sequence.push_back(Json{{"SpecialToken", {{"id", token}, {"type_id", type}}}});
    special_tokens[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  };
  const auto append = [&](Json& sequence, const char* name, int type) {
    if (vocabulary.add_bos) add(sequence, vocabulary.bos_id, type);
    sequence.push_back(Json{{"Sequence", {{"id", name}, {"type_id", type}}}});
    if (vocabulary.add_eos) add(sequence, vocabulary.eos_id, type);
  };
  Json single = Json::array();
  append(single, "A", 0);
  Json pair = Json::array();
  append(pair, "A", 0);
  append(pair, "B", 1);
  return Json{{"type", "TemplateProcessing"},
              {"single", std::move(single)},
              {"pair", std::move(pair)},
              {"special_tokens", std::move(special_tokens)}};
}

Json bpe_model(const model::Vocabulary& vocabulary, const std::vector<Merge>& merges) {
  Json vocab = Json::object();
  Json list = Json::array();
  auto& members = vocab.get_ref<Json::object_t&>();
  members.reserve(vocabulary.tokens.size());
  // Not vocab[token] = id: that searches an ordered object from its start each time.
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    members.emplace_back(vocabulary.tokens[id], id);
  }
  for (const Merge& merge : merges) list.push_back(Json::array({merge.left, merge.right}));
  return Json{{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", nullptr},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", false},
              {"byte_fallback", false},
              {"ignore_merges", false},
              {"vocab", std::move(vocab)},
              {"merges", std::move(list)}};
}

Json document(const model::Vocabulary& vocabulary) {
  return Json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", added_tokens(vocabulary)},
              {"normalizer", nullptr},
              {"pre_tokenizer", nullptr},
              {"post_processor", post_processor(vocabulary)},
              {"decoder", nullptr},
              {"model", nullptr}};
}

Result<std::string> byte_level_json(const model::Vocabulary& vocabulary, const TokenIds& ids) {
  PACELINE_ASSIGN_OR_RETURN(PreTokenizer pre, pre_tokenizer_named(vocabulary.pre));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Merge> merges, listed_merges(vocabulary, ids));
  Json json = document(vocabulary);
  json["normalizer"] = std::move(pre.normalizer);
  json["pre_tokenizer"] = std::move(pre.pre_tokenizer);
  json["decoder"] = {{"type", "ByteLevel"},
                     {"add_prefix_space", true},
                     {"trim_offsets", true},
                     {"use_regex", true}};
  json["model"] = bpe_model(vocabulary, merges);
  json["model"]["ignore_merges"] = pre.ignore_merges;
  return json.dump();
}

/// SentencePiece loses no character only with an unknown token or all byte tokens.
Status check_fallback(const model::Vocabulary& vocabulary, const TokenIds& ids) {
  if (vocabulary.unknown_id >= 0) return {};
  for (int byte = 0; byte < 256; ++byte) {
    if (!ids.contains(fmt::format("<0x{:02X}>", byte))) {
      return fail(ErrorCode::kInvalidArgument,
                  "tokenizer.ggml.unknown_token_id: is missing, and so is the token <0x{:02X}>",
                  byte);
    }
  }
  return {};
}

/// The normalizer puts the dummy prefix before each stretch of text between special tokens, also
/// one that starts with a space, as SentencePiece does (a Metaspace pre-tokenizer would not).
Result<std::string> sentencepiece_json(const model::Vocabulary& vocabulary, const TokenIds& ids) {
  PACELINE_RETURN_IF_ERROR(check_scores(vocabulary));
  PACELINE_RETURN_IF_ERROR(check_fallback(vocabulary, ids));
  constexpr const char* kSpace = "\xE2\x96\x81";  // U+2581
  Json normalizers = Json::array();
  Json decoders =
      Json::array({Json{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                   Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}});
  if (vocabulary.add_space_prefix) {
    normalizers.push_back(Json{{"type", "Prepend"}, {"prepend", kSpace}});
    decoders.push_back(Json{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back(
      Json{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}});
  Json json = document(vocabulary);
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
  json["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  json["model"] = bpe_model(vocabulary, derived_merges(vocabulary, ids));
  json["model"]["fuse_unk"] = true;
  json["model"]["byte_fallback"] = true;
  if (vocabulary.unknown_id >= 0) {
    json["model"]["unk_token"] = vocabulary.tokens[static_cast<std::size_t>(vocabulary.unknown_id)];
  }
  return json.dump();
}

}  // namespace

Result<std::string> tokenizer_json_from(const model::Vocabulary& vocabulary) {
  const bool is_byte_level = vocabulary.model == "gpt2";
  if (!is_byte_level && vocabulary.model != "llama") {
    return fail(ErrorCode::kUnimplemented,
                "tokenizer.ggml.model: is {}, expected \"gpt2\" or \"llama\"",
                model::in_quotes(vocabulary.model));
  }
  PACELINE_ASSIGN_OR_RETURN(const TokenIds ids, token_ids_of(vocabulary));
  PACELINE_RETURN_IF_ERROR(check_types(vocabulary));
  PACELINE_RETURN_IF_ERROR(check_ids(vocabulary));
  return is_byte_level ? byte_level_json(vocabulary, ids) : sentencepiece_json(vocabulary, ids);
}

}  // namespace paceline::text
