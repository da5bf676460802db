#include "plan/divide.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/checked_math.h"

namespace paceline::plan {
namespace {

constexpr std::uint64_t kMaxTotalBytes = 1ULL << 53;  // a double holds every integer up to here
constexpr std::size_t kMaxStages = 1024;

Status check(const LayerCosts& costs, const std::vector<double>& weights) {
  if (weights.empty())
    return fail(ErrorCode::kInvalidArgument, "stages: expected at least 1, got 0");
  if (weights.size() > costs.layers.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "stages: expected at most {}, one for each layer of the model, got {}",
                costs.layers.size(), weights.size());
  }
  for (const double weight : weights) {
    if (std::isfinite(weight) && weight > 0) continue;
    return fail(ErrorCode::kInvalidArgument, "weights: expected positive numbers, got {}", weight);
  }
  std::uint64_t total = 0;
  const auto add = [&total](std::uint64_t bytes) {
    const auto sum = checked_add(total, bytes);
    if (!sum || *sum > kMaxTotalBytes) return false;
    total = *sum;
    return true;
  };
  bool fits = add(costs.first) && add(costs.last) && add(costs.each);
  for (const std::uint64_t bytes : costs.layers) fits = fits && add(bytes);
  if (fits) return {};
  return fail(ErrorCode::kInvalidArgument, "layers: expected at most 2^53 bytes in all");
}

/// Answers bytes(range) from prefix sums.
class StageBytes {
 public:
  explicit StageBytes(const LayerCosts& costs) : costs_(costs), sums_(1, 0) {
    for (const std::uint64_t bytes : costs.layers) sums_.push_back(sums_.back() + bytes);
  }
  std::uint64_t operator()(std::size_t begin, std::size_t end) const {
    std::uint64_t bytes = sums_[end] - sums_[begin] + costs_.each;
    if (begin == 0) bytes += costs_.first;
    if (end == costs_.layers.size()) bytes += costs_.last;
    return bytes;
  }

 private:
  const LayerCosts& costs_;
  std::vector<std::uint64_t> sums_;
};

}  // namespace

Result<std::vector<LayerRange>> divide_by_weights(const LayerCosts& costs,
                                                  const std::vector<double>& weights) {
  PACELINE_RETURN_IF_ERROR(check(costs, weights));
  const std::size_t layers = costs.layers.size();
  const std::size_t stages = weights.size();
  const StageBytes bytes(costs);

  // best[end]: the least possible maximum when the stages so far cover layers [0, end);
  // cuts[stage][end]: where the last of them begins then.
  std::vector<double> best(layers + 1, std::numeric_limits<double>::infinity());
  best[0] = 0;
  std::vector<std::vector<std::uint32_t>> cuts(stages, std::vector<std::uint32_t>(layers + 1, 0));
  for (std::size_t stage = 0; stage < stages; ++stage) {
    std::vector<double> next(layers + 1, std::numeric_limits<double>::infinity());
    const std::size_t last_end = layers - (stages - 1 - stage);
    for (std::size_t end = stage + 1; end <= last_end; ++end) {
      // From short to long: the stage's own time only grows, so it soon decides alone.
      for (std::size_t begin = end; begin-- > stage;) {
        const double own = static_cast<double>(bytes(begin, end)) / weights[stage];
        if (own >= next[end]) break;
        const double slowest = std::max(best[begin], own);
        if (slowest < next[end]) {
          next[end] = slowest;
          cuts[stage][end] = static_cast<std::uint32_t>(begin);
        }
      }
    }
    best = std::move(next);
  }

  std::vector<LayerRange> ranges(stages);
  auto end = static_cast<std::uint32_t>(layers);
  for (std::size_t stage = stages; stage-- > 0;) {
    ranges[stage] = {cuts[stage][end], end};
    end = cuts[stage][end];
  }
  return ranges;
}

Result<std::vector<LayerRange>> divide(const LayerCosts& costs, std::uint32_t stages) {
  if (stages > costs.layers.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "stages: expected at most {}, one for each layer of the model, got {}",
                costs.layers.size(), stages);
  }
  return divide_by_weights(costs, std::vector<double>(stages, 1.0));
}

std::uint64_t stage_bytes(const LayerCosts& costs, LayerRange range) {
  return StageBytes(costs)(range.begin, range.end);
}

Result<std::vector<double>> parse_weights(std::string_view text) {
  std::vector<double> weights;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    double weight = 0;
    const auto [rest, code] = std::from_chars(at, end, weight, std::chars_format::fixed);
    const bool is_last = rest == end;
    const bool good = code == std::errc() && std::isfinite(weight) && weight > 0 &&
                      weights.size() < kMaxStages && (is_last || *rest == ',');
    if (!good) {
      return fail(ErrorCode::kInvalidArgument,
                  "weights: expected positive numbers between commas, e.g. 10,20, got \"{}\"",
                  text.substr(0, 100));
    }
    weights.push_back(weight);
    if (is_last) return weights;
    at = rest + 1;
  }
}

}  // namespace paceline::plan
