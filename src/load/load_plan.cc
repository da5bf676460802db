#include "load/load_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace paceline::load {
namespace {

std::optional<std::uint32_t> parse_number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0) return std::nullopt;
  return number;
}

}  // namespace

Result<Range> parse_range(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto least = parse_number(text.substr(0, colon));
  const auto most = colon == std::string_view::npos ? least : parse_number(text.substr(colon + 1));
  if (!least || !most || *least > *most) {
    return fail(ErrorCode::kInvalidArgument,
                "'{}': expected a number of tokens such as 128, or a range such as 64:256", text);
  }
  return Range{*least, *most};
}

Status check(const LoadSpec& spec) {
  if (!std::isfinite(spec.rate) || spec.rate < 0) {
    return fail(ErrorCode::kInvalidArgument, "rate: {}, expected requests per second", spec.rate);
  }
  if (!(spec.cancel_rate >= 0 && spec.cancel_rate <= 1)) {
    return fail(ErrorCode::kInvalidArgument, "cancel rate: {}, expected 0 to 1", spec.cancel_rate);
  }
  if (spec.vocabulary < 2) {
    return fail(ErrorCode::kInvalidArgument, "vocabulary: {} tokens, expected 2 at least",
                spec.vocabulary);
  }
  if (spec.shared_prefix_tokens >= spec.prompt_tokens.least) {
    return fail(ErrorCode::kInvalidArgument,
                "shared prefix: {} tokens, expected fewer than a prompt has ({})",
                spec.shared_prefix_tokens, spec.prompt_tokens.least);
  }
  return {};
}

LoadPlan::LoadPlan(LoadSpec spec, std::vector<std::vector<std::int64_t>> prompts)
    : spec_(spec), prompts_(std::move(prompts)), state_(spec.seed) {
  for (std::uint32_t i = 0; i < spec_.shared_prefix_tokens; ++i) prefix_.push_back(draw_token());
}

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
std::uint64_t LoadPlan::draw() {
  state_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

double LoadPlan::draw_unit() { return static_cast<double>(draw() >> 11U) * 0x1.0p-53; }

std::uint32_t LoadPlan::draw_from(Range range) {
  const std::uint64_t width = std::uint64_t{range.most} - range.least + 1;
  return range.least + static_cast<std::uint32_t>(draw() % width);
}

std::int64_t LoadPlan::draw_token() { return static_cast<std::int64_t>(draw() % spec_.vocabulary); }

std::vector<std::int64_t> LoadPlan::synthetic_prompt() {
  std::vector<std::int64_t> prompt = prefix_;
  const std::uint32_t length = draw_from(spec_.prompt_tokens);
  while (prompt.size() < length) prompt.push_back(draw_token());
  return prompt;
}

std::optional<PlannedRequest> LoadPlan::next() {
  if (spec_.requests > 0 && count_ == spec_.requests) return std::nullopt;
  PlannedRequest request;
  request.number = count_++;
  if (spec_.rate > 0) {
    arrival_s_ += -std::log1p(-draw_unit()) / spec_.rate;
    request.arrival =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(arrival_s_));
  }
  request.prompt =
      prompts_.empty() ? synthetic_prompt() : prompts_[request.number % prompts_.size()];
  request.output_tokens = draw_from(spec_.output_tokens);
  request.seed = draw();
  if (draw_unit() < spec_.cancel_rate) {
    request.cancel_after = draw_from({0, request.output_tokens - 1});
  }
  return request;
}

}  // namespace paceline::load
