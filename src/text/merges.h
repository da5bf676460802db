// The merges of a BPE vocabulary: those a GGUF lists, or those that SentencePiece scores imply.
// Private to this folder.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "model/vocabulary.h"

namespace paceline::text {

using TokenIds = std::unordered_map<std::string_view, std::size_t>;

/// Two tokens that are joined, as views into the vocabulary.
struct Merge {
  std::string_view left;
  std::string_view right;
};

/// The vocabulary's own merges in their order. kInvalidArgument names the one that is no pair of
/// tokens, or whose join is no token.
Result<std::vector<Merge>> listed_merges(const model::Vocabulary& vocabulary, const TokenIds& ids);

/// All splits of normal tokens into two tokens, the best first: by falling score, then by the ids
/// of the parts. Work is bounded by the vocabulary's bytes times the longest token.
std::vector<Merge> derived_merges(const model::Vocabulary& vocabulary, const TokenIds& ids);

}  // namespace paceline::text
