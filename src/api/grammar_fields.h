// What a request says of the form of its answer: response_format and structured_outputs.
#pragma once

#include <optional>
#include <string>

#include "api/fields.h"
#include "base/grammar_spec.h"

namespace paceline::api {

struct AskedGrammar {
  GrammarSpec spec;
  std::string field;  ///< that asks for it, e.g. "response_format.json_schema.schema"
};

/// Nothing where any text will do. Whether it compiles is seen where the model is known.
std::optional<AskedGrammar> read_grammar(Fields& fields);

/// What /v1/responses has as text.format: the type, and beside it what a schema has.
std::optional<AskedGrammar> read_text_format(Fields format);

/// A grammar of `texts` alone, each one a whole answer.
GrammarSpec choice_grammar(const std::vector<std::string>& texts);

}  // namespace paceline::api
