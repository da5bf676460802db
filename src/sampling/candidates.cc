#include "sampling/candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sampling/exact_math.h"

namespace paceline::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
/// Lists up to this size are sorted, longer ones are divided into buckets.
constexpr std::size_t kSorted = 256;
constexpr std::size_t kBuckets = 1024;
/// Up to this many are found by keeping the best in a buffer.
constexpr std::size_t kBuffered = 1024;

/// Searches the workspace's lists `searched` and `weights` for the entry with which the weights of
/// the preferred reach `target`.
class PrefixSearch {
 public:
  PrefixSearch(Workspace& workspace, std::size_t count, std::uint64_t target)
      : workspace_(workspace), count_(count), target_(target) {}

  /// Each round divides the range of logits by kBuckets and keeps the bucket in which the target is
  /// reached; floats end such divisions after 28 rounds, real rows after one.
  Candidate run() {
    for (;;) {
      const LogitRange ends = row_kernels().range({logits(), count_});
      const double range = double{ends.high} - double{ends.low};
      if (range == 0 || count_ <= kSorted) return last_by_order(range == 0);
      // The factor keeps the lowest out of a bucket of its own beyond the last.
      narrow({ends.high, kBuckets / range * (1 - 1e-12)});
    }
  }

 private:
  float* logits() { return workspace_.searched.logits.data(); }
  std::uint32_t* tokens() { return workspace_.searched.tokens.data(); }

  void narrow(Buckets division) {
    std::vector<std::int32_t>& buckets = workspace_.buckets;
    if (buckets.size() < count_) buckets.resize(count_);
    row_kernels().buckets({logits(), count_}, division, buckets.data());
    std::array<std::uint64_t, kBuckets> sums = {};
    for (std::size_t i = 0; i < count_; ++i) {
      sums[static_cast<std::size_t>(buckets[i])] += workspace_.weights[i];
    }
    std::size_t bucket = 0;
    while (bucket + 1 < kBuckets && sums[bucket] < target_) target_ -= sums[bucket++];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      logits()[kept] = logits()[i];
      tokens()[kept] = tokens()[i];
      workspace_.weights[kept] = workspace_.weights[i];
      kept += buckets[i] == static_cast<std::int32_t>(bucket) ? 1 : 0;
    }
    count_ = kept;
  }

  /// Of a short list, or one of equals, which stand in order.
  Candidate last_by_order(bool equals) {
    std::vector<std::uint32_t> order(count_);
    std::iota(order.begin(), order.end(), 0U);
    if (!equals) {
      std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
        return logits()[a] > logits()[b];
      });
    }
    std::uint64_t sum = 0;
    std::uint32_t last = 0;
    for (const std::uint32_t i : order) {
      last = i;
      sum += workspace_.weights[i];
      if (sum >= target_) break;
    }
    return {logits()[last], tokens()[last]};
  }

  Workspace& workspace_;
  std::size_t count_;
  std::uint64_t target_;
};

void make_room(EntryLists& lists, std::size_t count) {
  if (lists.logits.size() < count) lists.logits.resize(count);
  if (lists.tokens.size() < count) lists.tokens.resize(count);
}

/// Calls `visit(begin, end)` for the blocks of a row whose highest entry is at least `lowest`,
/// which may rise meanwhile.
template <typename Visit>
void for_blocks_from(const Row& row, const float& lowest, Visit visit) {
  for (std::size_t block = 0; block < row.block_max.size(); ++block) {
    if (row.block_max[block] < lowest) continue;
    const std::size_t begin = block * kBlock;
    visit(begin, std::min(begin + kBlock, row.logits.size()));
  }
}

}  // namespace

bool scan_row(std::span<const float> logits, Workspace& workspace, Row& row) {
  workspace.block_max.resize((logits.size() + kBlock - 1) / kBlock);
  const RowScan scan = row_kernels().scan(logits, workspace.block_max.data());
  row = {logits, workspace.block_max, scan.max};
  return scan.is_sound;
}

Candidate best_of(const Row& row) {
  const auto block = std::find(row.block_max.begin(), row.block_max.end(), row.max);
  const auto begin = row.logits.begin() + (block - row.block_max.begin()) * kBlock;
  const auto found = std::find(begin, row.logits.end(), row.max);
  return {row.max, static_cast<std::uint32_t>(found - row.logits.begin())};
}

std::vector<Candidate> top_of(const Row& row, std::size_t count) {
  count = std::min(count, row.logits.size());
  std::vector<Candidate> buffer;
  if (count == 0) return buffer;
  buffer.reserve(2 * count);
  // What is not preferred to `cutoff` is out; `lowest` is its logit.
  Candidate cutoff = {-kInfinity, std::numeric_limits<std::uint32_t>::max()};
  const auto shrink = [&] {
    const auto last = buffer.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(buffer.begin(), last, buffer.end(), preferred);
    cutoff = *last;
    buffer.resize(count);
  };
  for_blocks_from(row, cutoff.logit, [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      const Candidate next = {row.logits[token], static_cast<std::uint32_t>(token)};
      if (!preferred(next, cutoff)) continue;
      buffer.push_back(next);
      if (buffer.size() == 2 * count) shrink();
    }
  });
  std::sort(buffer.begin(), buffer.end(), preferred);
  buffer.resize(std::min(buffer.size(), count));
  return buffer;
}

template <typename Keep>
void Candidates::keep_where(float lowest, Keep keep) {
  make_room(workspace_.left, row_.logits.size());
  float* const logits = workspace_.left.logits.data();
  std::uint32_t* const tokens = workspace_.left.tokens.data();
  std::size_t kept = 0;
  // Without branches: what is kept cannot be foreseen.
  const auto offer = [&](const Candidate& entry) {
    logits[kept] = entry.logit;
    tokens[kept] = entry.token;
    kept += keep(entry) ? 1 : 0;
  };
  if (is_list_) {
    for (std::size_t i = 0; i < count_; ++i) offer({logits[i], tokens[i]});
  } else {
    for_blocks_from(row_, lowest, [&](std::size_t begin, std::size_t end) {
      for (std::size_t token = begin; token < end; ++token) {
        offer({row_.logits[token], static_cast<std::uint32_t>(token)});
      }
    });
  }
  is_list_ = true;
  count_ = kept;
}

void Candidates::keep_from(float lowest) {
  keep_where(lowest, [lowest](const Candidate& entry) { return entry.logit >= lowest; });
}

void Candidates::keep_up_to(const Candidate& last) {
  keep_where(last.logit, [&last](const Candidate& entry) {
    return (entry.logit > last.logit) | ((entry.logit == last.logit) & (entry.token <= last.token));
  });
}

Candidate Candidates::last_of_prefix(std::uint64_t target) {
  make_room(workspace_.searched, count_);
  std::copy_n(workspace_.left.logits.begin(), count_, workspace_.searched.logits.begin());
  std::copy_n(workspace_.left.tokens.begin(), count_, workspace_.searched.tokens.begin());
  return PrefixSearch(workspace_, count_, target).run();
}

void Candidates::keep_top_k(std::uint32_t k) {
  if (k == 0 || k >= size()) return;
  if (!is_list_ && k <= kBuffered) {
    keep_up_to(top_of(row_, k).back());
    return;
  }
  // Finite ones only: a range that is divided needs two ends.
  keep_from(std::numeric_limits<float>::lowest());
  if (k >= count_) return;
  workspace_.weights.assign(count_, 1);
  keep_up_to(last_of_prefix(k));
}

void Candidates::keep_top_p(double top_p, double temperature) {
  if (top_p >= 1) return;
  const Tempering tempering = {row_.max, temperature};
  const std::uint64_t total =
      row_kernels().total_weight(is_list_ ? logits() : row_.logits, tempering);
  const double wanted = std::ceil(top_p * static_cast<double>(total));
  const std::uint64_t target =
      wanted >= static_cast<double>(total) ? total : static_cast<std::uint64_t>(wanted);
  // Entries of at most `light` each weigh less than the rest beyond the target together, so the
  // target is reached before the first of them. What weighs nothing is out in any case.
  const std::uint64_t light = (total - target) / size();
  const double lightest =
      exact_log(std::max(static_cast<double>(light), 0.25)) - kWeightBits * 0.69314718056 - 1e-6;
  const double lowest = double{row_.max} + lightest * temperature;
  keep_from(lowest > double{std::numeric_limits<float>::lowest()}
                ? std::nextafter(static_cast<float>(lowest), -kInfinity)
                : std::numeric_limits<float>::lowest());
  if (workspace_.weights.size() < count_) workspace_.weights.resize(count_);
  row_kernels().weights(logits(), tempering, workspace_.weights.data());
  keep_up_to(last_of_prefix(target));
}

}  // namespace paceline::sampling
