// A chain in one, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/step_runner.h"

namespace paceline::coordinator {

/// A chain in one: keeps KV as tokens in blocks, so that any block mixed up changes what follows.
/// Checks drafts like a last stage.
class FakeChain final : public StepRunner {
 public:
  using Ids = std::vector<std::int64_t>;
  static constexpr std::uint32_t kBlockTokens = 4;

  /// The next token after all those before.
  std::function<std::int64_t(const Ids&)> model = [](const Ids& tokens) {
    const auto sum =
        std::accumulate(tokens.begin(), tokens.end(), std::int64_t{7},
                        [](std::int64_t a, std::int64_t b) { return (a * 31 + b) % 9973; });
    return sum % 40 + 3;
  };
  std::uint64_t fail_at = 0;  ///< this step's result is an error
  std::vector<wire::TokenLogprob> top;
  std::string sample_failure;  ///< of all samples of sequences with a grammar
  /// The mean of a prompt: told apart by its length and its sum.
  static std::vector<float> mean_of(const Ids& prompt) {
    const auto sum = std::accumulate(prompt.begin(), prompt.end(), std::int64_t{0});
    return {3.0F * static_cast<float>(prompt.size()), 4.0F * static_cast<float>(sum)};
  }
  static constexpr std::uint64_t kMeanWidth = 2;
  bool gives_means = true;

  Result<StepId> submit(wire::Step step) override {
    const std::lock_guard lock(mutex_);
    const StepId id(++last_step_);
    wire::StepResult result;
    std::uint32_t row = 0;
    for (const auto& spec : step.opened) open_[spec.sequence] = spec;
    for (const wire::BlockCopy& copy : step.copies) blocks_[copy.to] = blocks_[copy.from];
    for (const auto& entry : step.sequences) run(id, entry, row, result);
    result.stage_times = {{StageId(0), 0, 50}};
    steps.push_back(std::move(step));
    results_.emplace_back(id, std::move(result));
    most_outstanding = std::max(most_outstanding, results_.size());
    return id;
  }
  Result<std::optional<wire::StepResult>> await(StepId step, Deadline) override {
    std::unique_lock lock(mutex_);
    held_.wait(lock, [this] { return !is_held_ || woken_; });
    if (std::exchange(woken_, false) && is_held_) return std::nullopt;
    if (step.value() == fail_at) return fail(ErrorCode::kUnavailable, "the worker is gone");
    EXPECT_EQ(results_.front().first, step) << "results are awaited in order";
    auto result = std::move(results_.front().second);
    results_.pop_front();
    return result;
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    held_.notify_all();
  }
  /// While held, no result comes back.
  void hold(bool is_held) {
    const std::lock_guard lock(mutex_);
    is_held_ = is_held;
    held_.notify_all();
  }
  std::optional<Error> failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  /// Whether or not somebody waits for a result.
  void end(Error failure) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
  }
  std::size_t open_sequences() {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }

  std::vector<wire::Step> steps;
  std::size_t most_outstanding = 0;
  int drafts_right = 0;
  int drafts_wrong = 0;

 private:
  void run(StepId step, const wire::StepSequence& entry, std::uint32_t& row,
           wire::StepResult& result) {
    for (const wire::Operation& operation : entry.operations) {
      if (std::holds_alternative<wire::Free>(operation)) open_.erase(entry.sequence);
    }
    if (entry.new_tokens == 0) return;
    ASSERT_TRUE(open_.contains(entry.sequence));
    ASSERT_EQ(entry.blocks.at(0).size(),
              (entry.past_tokens + entry.new_tokens + kBlockTokens - 1) / kBlockTokens);
    Ids tokens;
    bool is_astray = false;
    for (std::uint32_t i = 0; i < entry.past_tokens; ++i) tokens.push_back(slot(entry, i));
    for (std::uint32_t i = 0; i < entry.new_tokens; ++i, ++row) {
      std::int64_t token = 0;
      if (const auto* literal = std::get_if<std::int64_t>(&entry.tokens[i])) {
        token = *literal;
      } else {
        const auto& reference = std::get<wire::TokenReference>(entry.tokens[i]);
        token = sampled_.at({reference.step, reference.row});
      }
      tokens.push_back(token);
      slot(entry, entry.past_tokens + i) = token;
      const auto& rows = entry.sampled_rows;
      if (is_astray || std::find(rows.begin(), rows.end(), i) == rows.end()) continue;
      wire::Sample sample;
      sample.sequence = entry.sequence;
      sample.row = row;
      sample.token = model(tokens);
      sample.logprob = tokens.size() < open_[entry.sequence].prompt_tokens
                           ? -static_cast<float>(tokens.size())
                           : -0.5F;
      sample.logits_digest = tokens.size();
      sample.top = top;
      if (open_[entry.sequence].sampling.grammar) sample.failure = sample_failure;
      if (open_[entry.sequence].want_mean && gives_means) sample.mean = mean_of(tokens);
      sampled_[{step, row}] = sample.token;
      const std::size_t first_draft = entry.new_tokens - entry.drafts.size();
      const std::size_t next = i + std::size_t{1};
      is_astray = next >= first_draft && next < entry.new_tokens &&
                  entry.drafts[next - first_draft] != sample.token;
      drafts_right += next >= first_draft && next < entry.new_tokens && !is_astray ? 1 : 0;
      drafts_wrong += is_astray ? 1 : 0;
      result.samples.push_back(sample);
    }
  }
  std::int64_t& slot(const wire::StepSequence& entry, std::uint32_t position) {
    auto& block = blocks_[entry.blocks[0].at(position / kBlockTokens)];
    block.resize(kBlockTokens);
    return block[position % kBlockTokens];
  }

  mutable std::mutex mutex_;
  std::optional<Error> failure_;
  std::condition_variable held_;
  bool is_held_ = false;
  bool woken_ = false;
  std::uint64_t last_step_ = 0;
  std::map<SequenceId, wire::SequenceSpec> open_;
  std::map<BlockId, Ids> blocks_;
  std::map<std::pair<StepId, std::uint32_t>, std::int64_t> sampled_;
  std::deque<std::pair<StepId, wire::StepResult>> results_;
};

}  // namespace paceline::coordinator
