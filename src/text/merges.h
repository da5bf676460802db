// The merges of a BPE vocabulary: those a GGUF lists, or those that SentencePiece scores imply.
// Private to this folder.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/vocabulary.h"
#include "text/vocabulary_rules.h"

namespace paceline::text {

/// Two tokens that are joined, as views into the vocabulary.
struct Merge {
  std::string_view left;
  std::string_view right;
};

/// The vocabulary's own merges in their order. kInvalidArgument names the one that is no pair of
/// tokens, or whose join is no token.
Result<std::vector<Merge>> listed_merges(const model::Vocabulary& vocabulary, const TokenIds& ids);

/// All splits of tokens into two tokens, the best first: by falling score, then by the id of the
/// joined token, then by those of its parts. Unused, control and byte tokens are nothing that text
/// is joined to. Only user-defined tokens of U+2581 are: all others are found in the text as they
/// stand before merges apply. They come first, whatever their score: the file has lost it.
///
/// kInvalidArgument where the tokens are so long that looking for the splits would take minutes.
Result<std::vector<Merge>> derived_merges(const model::Vocabulary& vocabulary, const TokenIds& ids);

}  // namespace paceline::text
