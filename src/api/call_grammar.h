// Answers whose calls of tools hold the tools' schemas, as a grammar over the family's way to write
// calls.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer_parser.h"
#include "api/fields.h"
#include "api/grammar_fields.h"

namespace paceline::api {

struct CallForm {
  ToolFormat format = ToolFormat::kHermes;
  bool names_first = false;  ///< Mistral's newer way: [TOOL_CALLS]name[ARGS]{...}
  bool must_call = false;    ///< else the answer may be text
  std::string name = {};     ///< the one tool that may be called; empty: any
  bool is_parallel = true;   ///< several calls, where the format has them and no tool is named
  /// What an answer without calls must be: JSON of some form; none: any text.
  std::optional<AskedGrammar> other = {};
};

/// The id of a mark that is a special token, which no text spells; nothing for all other text.
using SpecialToken = std::function<std::optional<std::int64_t>(std::string_view)>;

/// An error names the field that cannot be met.
Parsed<GrammarSpec> call_grammar(const CallForm& form, const Json& tools,
                                 const SpecialToken& special);

/// Whether a chat template shows Mistral's newer way.
bool names_calls_first(std::string_view chat_template);

}  // namespace paceline::api
