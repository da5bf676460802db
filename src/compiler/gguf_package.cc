#include "compiler/gguf_package.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "compiler/ir_directory.h"
#include "model/gguf.h"
#include "system/files.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

void set_token(nlohmann::ordered_json& json, const char* name, const model::Vocabulary& vocabulary,
               std::int64_t id) {
  if (id >= 0 && static_cast<std::size_t>(id) < vocabulary.tokens.size()) {
    json[name] = vocabulary.tokens[static_cast<std::size_t>(id)];
  }
}

std::string tokenizer_config_json(const model::Vocabulary& vocabulary) {
  nlohmann::ordered_json json;
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  if (vocabulary.add_bos) json["add_bos_token"] = *vocabulary.add_bos;
  if (vocabulary.add_eos) json["add_eos_token"] = *vocabulary.add_eos;
  set_token(json, "bos_token", vocabulary, vocabulary.bos_id);
  set_token(json, "eos_token", vocabulary, vocabulary.eos_id);
  set_token(json, "unk_token", vocabulary, vocabulary.unknown_id);
  set_token(json, "pad_token", vocabulary, vocabulary.padding_id);
  if (!vocabulary.chat_template.empty()) json["chat_template"] = vocabulary.chat_template;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Status write_text_files(const model::Vocabulary& vocabulary, const fs::path& directory) {
  PACELINE_ASSIGN_OR_RETURN(const std::string tokenizer, text::tokenizer_json_from(vocabulary));
  // What would fail at every start of the model fails here, once.
  PACELINE_RETURN_IF_ERROR(text::Tokenizer::parse(tokenizer));
  PACELINE_RETURN_IF_ERROR(system::write_file_atomically(directory / "tokenizer.json", tokenizer));
  PACELINE_RETURN_IF_ERROR(system::write_file_atomically(directory / "tokenizer_config.json",
                                                         tokenizer_config_json(vocabulary)));
  if (vocabulary.chat_template.empty()) return {};
  if (auto parsed = text::ChatTemplate::parse(vocabulary.chat_template); !parsed) {
    return fail(parsed.error().with_context("tokenizer.chat_template"));
  }
  return system::write_file_atomically(directory / "chat_template.jinja", vocabulary.chat_template);
}

}  // namespace

Result<FilledPackage> fill_from_gguf(const fs::path& source, const fs::path& directory,
                                     Progress& progress, const WriteOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const auto gguf, model::GgufFile::open(source));
  PACELINE_ASSIGN_OR_RETURN(const auto config, gguf->decoder_config());
  PACELINE_ASSIGN_OR_RETURN(const auto vocabulary, gguf->vocabulary());
  if (auto written = write_text_files(vocabulary, directory); !written) {
    return fail(written.error().with_context(source.string()));
  }
  PACELINE_ASSIGN_OR_RETURN(auto weights,
                            build_ir_directory(*gguf, config, directory, progress, options));
  return FilledPackage{{config.name, config.architecture, "gguf"}, std::move(weights)};
}

}  // namespace paceline::compiler
