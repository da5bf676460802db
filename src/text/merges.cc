#include "text/merges.h"

#include <algorithm>
#include <tuple>

#include "model/foreign_text.h"
#include "text/utf8.h"

namespace paceline::text {
namespace {

/// A merge with what it is sorted by.
struct Candidate {
  Merge merge;
  float score;
  std::size_t left_id;
  std::size_t right_id;
};

void add_splits(std::string_view token, float score, const TokenIds& ids,
                std::vector<Candidate>& candidates) {
  std::size_t at = 0;
  while (true) {
    at += first_character_bytes(token.substr(at));
    if (at >= token.size()) return;
    const auto left = ids.find(token.substr(0, at));
    if (left == ids.end()) continue;
    const auto right = ids.find(token.substr(at));
    if (right == ids.end()) continue;
    candidates.push_back({{left->first, right->first}, score, left->second, right->second});
  }
}

}  // namespace

Result<std::vector<Merge>> listed_merges(const model::Vocabulary& vocabulary, const TokenIds& ids) {
  std::vector<Merge> merges;
  merges.reserve(vocabulary.merges.size());
  std::string joined;
  for (std::size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const std::string_view line = vocabulary.merges[i];
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) {
      return fail(ErrorCode::kInvalidArgument,
                  "tokenizer.ggml.merges[{}]: expected two tokens divided by a space", i);
    }
    const Merge merge = {line.substr(0, space), line.substr(space + 1)};
    joined.assign(merge.left).append(merge.right);
    for (const std::string_view part : {merge.left, merge.right, std::string_view(joined)}) {
      if (!ids.contains(part)) {
        return fail(ErrorCode::kInvalidArgument, "tokenizer.ggml.merges[{}]: {} is no token", i,
                    model::in_quotes(part));
      }
    }
    merges.push_back(merge);
  }
  return merges;
}

std::vector<Merge> derived_merges(const model::Vocabulary& vocabulary, const TokenIds& ids) {
  constexpr std::int32_t kNormal = 1;
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!vocabulary.token_types.empty() && vocabulary.token_types[i] != kNormal) continue;
    add_splits(vocabulary.tokens[i], vocabulary.scores[i], ids, candidates);
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.score, a.left_id, a.right_id) <
           std::tuple(-b.score, b.left_id, b.right_id);
  });
  std::vector<Merge> merges;
  merges.reserve(candidates.size());
  for (const Candidate& candidate : candidates) merges.push_back(candidate.merge);
  return merges;
}

}  // namespace paceline::text
