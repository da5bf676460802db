#include "text/added_tokens.h"

#include <string_view>
#include <utility>

#include "text/vocabulary_rules.h"

namespace paceline::text {
namespace {

using Json = nlohmann::ordered_json;

/// 0 for an ordinary token.
int added_type(const model::Vocabulary& vocabulary, std::size_t id) {
  const auto number = static_cast<std::int64_t>(id);
  if (number == vocabulary.bos_id || number == vocabulary.eos_id) return kControl;
  if (vocabulary.token_types.empty()) return 0;
  const std::int32_t type = vocabulary.token_types[id];
  return type == kUnknown || type == kControl || type == kUserDefined ? type : 0;
}

struct Strips {
  bool left = false;
  bool right = false;
};

/// Phi-3 and Phi-4-mini: the tokens of a chat take whitespace behind them, those of the base
/// vocabulary none. Phi-4: all take whitespace on both sides.
Strips strips_of(const model::Vocabulary& vocabulary, std::string_view token) {
  if (vocabulary.architecture != "phi3") return {};
  if (vocabulary.model == "gpt2" && vocabulary.pre == "dbrx") return {true, true};
  for (const char* base : {"<unk>", "<s>", "<|endoftext|>", "<|endofprompt|>"}) {
    if (token == base) return {};
  }
  return {false, true};
}

}  // namespace

Json added_tokens(const model::Vocabulary& vocabulary) {
  Json list = Json::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    const int type = added_type(vocabulary, id);
    if (type == 0 || token.empty()) continue;
    const Strips strips = strips_of(vocabulary, token);
    list.push_back(Json{{"id", id},
                        {"content", token},
                        {"single_word", false},
                        {"lstrip", strips.left},
                        {"rstrip", strips.right},
                        {"normalized", false},
                        {"special", type != kUserDefined}});
  }
  return list;
}

}  // namespace paceline::text
