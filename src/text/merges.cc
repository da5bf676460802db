#include "text/merges.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include "base/utf8.h"
#include "model/foreign_text.h"

namespace paceline::text {
namespace {

/// Bytes that are hashed when the splits of all tokens are looked up; real vocabularies need some
/// 0.1 % of it.
constexpr std::uint64_t kMaxWork = std::uint64_t{1} << 32;

/// A merge with what it is sorted by.
struct Candidate {
  Merge merge;
  float score;
  std::size_t id;
  std::size_t left_id;
  std::size_t right_id;
};

void add_splits(std::string_view token, std::size_t id, float score, const TokenIds& ids,
                std::vector<Candidate>& candidates) {
  std::size_t at = 0;
  while (true) {
    at += first_character_bytes(token.substr(at));
    if (at >= token.size()) return;
    const auto left = ids.find(token.substr(0, at));
    if (left == ids.end()) continue;
    const auto right = ids.find(token.substr(at));
    if (right == ids.end()) continue;
    candidates.push_back({{left->first, right->first}, score, id, left->second, right->second});
  }
}

bool is_of_spaces(std::string_view token) {
  for (; !token.empty(); token.remove_prefix(kEscapedSpace.size())) {
    if (!token.starts_with(kEscapedSpace)) return false;
  }
  return true;
}

/// The score by which a token is joined; none where it never is.
std::optional<float> score_of(const model::Vocabulary& vocabulary, std::size_t id) {
  switch (vocabulary.token_types.empty() ? kNormal : vocabulary.token_types[id]) {
    case kNormal:
      return vocabulary.scores[id];
    case kUserDefined:
      if (is_of_spaces(vocabulary.tokens[id])) return std::numeric_limits<float>::infinity();
      return std::nullopt;
    default:
      return std::nullopt;
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

Result<std::vector<Merge>> derived_merges(const model::Vocabulary& vocabulary,
                                          const TokenIds& ids) {
  std::vector<Candidate> candidates;
  std::uint64_t work = 0;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    const auto score = score_of(vocabulary, id);
    if (!score) continue;
    work += token.size() * token.size();
    if (work > kMaxWork) {
      return fail(ErrorCode::kInvalidArgument,
                  "tokenizer.ggml.tokens: has too many long tokens, from tokens[{}] on", id);
    }
    add_splits(token, id, *score, ids, candidates);
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.score, a.id, a.left_id, a.right_id) <
           std::tuple(-b.score, b.id, b.left_id, b.right_id);
  });
  std::vector<Merge> merges;
  merges.reserve(candidates.size());
  for (const Candidate& candidate : candidates) merges.push_back(candidate.merge);
  return merges;
}

}  // namespace paceline::text
