// Which entries of a row may be drawn: cuts by logit, by number and by probability mass.
//
// The order of preference is by logit, the lower id first among equals; each cut keeps a beginning
// of that order. Nothing is sorted but what remains of a cut's last bucket.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sampling/row_kernels.h"

namespace paceline::sampling {

struct Candidate {
  float logit = -std::numeric_limits<float>::infinity();
  std::uint32_t token = 0;
};

/// Whether `a` stands before `b` in the order of preference.
inline bool preferred(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

/// Entries, at least as many as the longest row so far had.
struct EntryLists {
  std::vector<float> logits;
  std::vector<std::uint32_t> tokens;
};

/// Memory that is used again from row to row. Thread-compatible; holds nothing between calls.
struct Workspace {
  std::vector<float> adjusted;   ///< a row with biases and penalties
  std::vector<float> block_max;  ///< of the row's blocks
  EntryLists left;               ///< the candidates, by rising id
  EntryLists searched;           ///< those among which the end of a cut is sought
  std::vector<std::uint64_t> weights;
  std::vector<std::int32_t> buckets;
};

/// A row of logits, none of them NaN or inf, with the highest of each block.
struct Row {
  std::span<const float> logits;
  std::span<const float> block_max;
  float max = 0;
};

/// Finds what `scan` needs of a row; `Row::max` is meaningless where it is not sound.
bool scan_row(std::span<const float> logits, Workspace& workspace, Row& row);

/// The preferred entry of all.
Candidate best_of(const Row& row);

/// The `count` preferred entries, in the order of preference; fewer where the row is shorter.
std::vector<Candidate> top_of(const Row& row, std::size_t count);

/// The entries of a row that are left after cuts. At first all, without a copy of them.
class Candidates {
 public:
  Candidates(const Row& row, Workspace& workspace) : row_(row), workspace_(workspace) {}

  /// Keeps entries whose logit is at least `lowest`.
  void keep_from(float lowest);
  /// Keeps the k preferred.
  void keep_top_k(std::uint32_t k);
  /// Keeps the fewest preferred whose weights reach the share `top_p` of all that are left.
  void keep_top_p(double top_p, double temperature);

  bool has_all() const { return !is_list_; }
  const Row& row() const { return row_; }
  /// Not has_all(): the entries that are left, in the order of ids.
  std::span<const float> logits() const { return std::span(workspace_.left.logits).first(count_); }
  std::span<const std::uint32_t> tokens() const {
    return std::span(workspace_.left.tokens).first(count_);
  }

 private:
  std::size_t size() const { return is_list_ ? count_ : row_.logits.size(); }
  /// Keeps the entries of which `keep` is true; none below `lowest` is.
  template <typename Keep>
  void keep_where(float lowest, Keep keep);
  /// Keeps the entries that are not after `last`.
  void keep_up_to(const Candidate& last);
  /// The entry with which the workspace's weights, in the order of preference, reach `target`.
  Candidate last_of_prefix(std::uint64_t target);

  Row row_;
  Workspace& workspace_;
  bool is_list_ = false;
  std::size_t count_ = 0;  ///< entries of the list
};

}  // namespace paceline::sampling
