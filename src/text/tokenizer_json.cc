#include "text/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "model/foreign_text.h"
#include "text/added_tokens.h"
#include "text/merges.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary_rules.h"

namespace paceline::text {
namespace {

using Json = nlohmann::ordered_json;

/// BOS before and EOS behind each sequence, as the file asks; null for neither.
Json post_processor(const model::Vocabulary& vocabulary) {
  if (!*vocabulary.add_bos && !*vocabulary.add_eos) return nullptr;
  Json special_tokens = Json::object();
  const auto add = [&](Json& sequence, std::int64_t id, int type) {
    const std::string& token = vocabulary.tokens[static_cast<std::size_t>(id)];
    sequence.push_back(Json{{"SpecialToken", {{"id", token}, {"type_id", type}}}});
    special_tokens[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  };
  const auto append = [&](Json& sequence, const char* name, int type) {
    if (*vocabulary.add_bos) add(sequence, vocabulary.bos_id, type);
    sequence.push_back(Json{{"Sequence", {{"id", name}, {"type_id", type}}}});
    if (*vocabulary.add_eos) add(sequence, vocabulary.eos_id, type);
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

Result<std::string> byte_level_json(model::Vocabulary& vocabulary) {
  PACELINE_ASSIGN_OR_RETURN(PreTokenizer pre, pre_tokenizer_named(vocabulary.pre));
  complete(vocabulary, pre.adds_bos);
  PACELINE_ASSIGN_OR_RETURN(const TokenIds ids, token_ids_of(vocabulary));
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
Result<std::string> sentencepiece_json(model::Vocabulary& vocabulary) {
  complete(vocabulary, /*adds_bos=*/true);
  PACELINE_ASSIGN_OR_RETURN(const TokenIds ids, token_ids_of(vocabulary));
  PACELINE_RETURN_IF_ERROR(check_fallback(vocabulary, ids));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Merge> merges, derived_merges(vocabulary, ids));
  Json normalizers = Json::array();
  Json decoders = Json::array(
      {Json{{"type", "Replace"}, {"pattern", {{"String", kEscapedSpace}}}, {"content", " "}},
       Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}});
  if (vocabulary.add_space_prefix) {
    normalizers.push_back(Json{{"type", "Prepend"}, {"prepend", kEscapedSpace}});
    decoders.push_back(Json{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back(
      Json{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kEscapedSpace}});
  Json json = document(vocabulary);
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
  json["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  json["model"] = bpe_model(vocabulary, merges);
  json["model"]["fuse_unk"] = true;
  json["model"]["byte_fallback"] = true;
  if (vocabulary.unknown_id >= 0) {
    json["model"]["unk_token"] = vocabulary.tokens[static_cast<std::size_t>(vocabulary.unknown_id)];
  }
  return json.dump();
}

}  // namespace

Result<std::string> tokenizer_json_from(model::Vocabulary vocabulary) {
  const bool is_byte_level = vocabulary.model == "gpt2";
  if (!is_byte_level && vocabulary.model != "llama") {
    return fail(ErrorCode::kUnimplemented,
                "tokenizer.ggml.model: is {}, expected \"gpt2\" or \"llama\"",
                model::in_quotes(vocabulary.model));
  }
  PACELINE_RETURN_IF_ERROR(check_vocabulary(vocabulary));
  return is_byte_level ? byte_level_json(vocabulary) : sentencepiece_json(vocabulary);
}

}  // namespace paceline::text
