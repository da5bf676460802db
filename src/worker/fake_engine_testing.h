// A stage engine in integers for tests of this folder and of the coordinator: what it gives depends
// on each token before, through a KV cache in blocks, and a chain of stages gives what the whole
// model does. No device, no OpenVINO.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/stage_engine.h"

namespace paceline::worker {

inline constexpr std::uint32_t kFakeVocabulary = 97;
inline constexpr std::uint32_t kFakeBlockTokens = 4;

/// Each layer keeps the numbers that reach it; a row's number becomes a function of all of them up
/// to its position. A boundary row is the number twice, as f32; the logits of a row are 1 at the
/// number and 0 elsewhere; what its head reads of it are two functions of it. Thread-compatible.
class FakeEngine final : public engine::StageEngine {
 public:
  FakeEngine(LayerRange layers, std::uint32_t all_layers) {
    info_.layers = layers;
    info_.is_first = layers.begin == 0;
    info_.is_last = layers.end == all_layers;
    const std::vector<engine::BoundarySpec> boundary = {{"hidden", ElementType::kF32, {2}}};
    if (!info_.is_first) info_.input_boundary = boundary;
    if (!info_.is_last) info_.output_boundary = boundary;
    if (info_.is_last) info_.vocabulary_size = kFakeVocabulary;
    if (info_.is_last) info_.final_width = 2;
    info_.weight_bytes = 1000ULL * layers.size();
    info_.kv_bytes = 10ULL * layers.size();
  }

  /// Refuses from now on what the stateful engine does: a second sequence, and one that does not
  /// begin at 0 or go on where it was.
  void become_stateful() {
    info_.engine = EngineKind::kStateful;
    info_.max_sequences = 1;
    info_.shares_kv = false;
  }

  /// As engines that know nothing of final rows.
  void give_no_final_rows() { info_.final_width = 0; }

  void set_tokenizer(std::filesystem::path path) { info_.tokenizer = std::move(path); }

  const engine::StageInfo& info() const override { return info_; }

  void forget(std::span<const SequenceId> freed) override {
    if (held_ && std::find(freed.begin(), freed.end(), *held_) != freed.end()) held_.reset();
  }

  Result<engine::StageOutput> run(const engine::StageBatch& batch) override {
    if (before_run) before_run();
    if (failure) return fail(*failure);
    if (!info_.shares_kv) PACELINE_RETURN_IF_ERROR(hold(batch));
    ++runs;
    for (const engine::BlockCopy& copy : batch.copies) {
      for (auto& [layer, blocks] : kv_) blocks[copy.to] = blocks[copy.from];
    }
    boundary_.clear();
    logits_.clear();
    final_rows_.clear();
    std::size_t first_row = 0;
    for (const engine::SequenceRows& sequence : batch.sequences) {
      run_sequence(batch, sequence, first_row);
      first_row += sequence.new_tokens;
    }
    engine::StageOutput output;
    output.logits = logits_;
    if (batch.wants_final_rows) output.final_rows = final_rows_;
    if (!info_.is_last) output.boundaries = {std::as_bytes(std::span(boundary_))};
    return output;
  }

  /// Called at the begin of a run, on the thread that runs it.
  std::function<void()> before_run;
  std::optional<Error> failure;  ///< what the next runs give
  int runs = 0;                  ///< that did not fail

 private:
  Status hold(const engine::StageBatch& batch) {
    forget(batch.freed);
    const engine::SequenceRows& rows = batch.sequences.front();
    const bool goes_on = held_ == rows.sequence && rows.past_tokens <= held_tokens_;
    const bool begins = !held_ && rows.past_tokens == 0;
    if (batch.sequences.size() != 1 || !batch.copies.empty() || !(goes_on || begins)) {
      return fail(ErrorCode::kFailedPrecondition, "the stateful fake holds one sequence");
    }
    held_ = rows.sequence;
    held_tokens_ = rows.past_tokens + rows.new_tokens;
    return {};
  }

  using Blocks = std::map<BlockId, std::map<std::uint32_t, std::uint32_t>>;

  std::uint32_t input(const engine::StageBatch& batch, std::size_t row) const {
    if (info_.is_first) return static_cast<std::uint32_t>(batch.tokens.at(row));
    float number = 0;
    std::memcpy(&number, batch.boundaries.at(0).data() + row * 2 * sizeof(float), sizeof(float));
    return static_cast<std::uint32_t>(std::lround(number));  // an int8 link is not exact
  }

  void run_sequence(const engine::StageBatch& batch, const engine::SequenceRows& sequence,
                    std::size_t first_row) {
    for (std::uint32_t row = 0; row < sequence.new_tokens; ++row) {
      const std::uint32_t position = sequence.past_tokens + row;
      std::uint32_t number = input(batch, first_row + row);
      for (std::uint32_t layer = info_.layers.begin; layer < info_.layers.end; ++layer) {
        Blocks& blocks = kv_[layer];
        blocks[sequence.blocks.at(position / kFakeBlockTokens)][position % kFakeBlockTokens] =
            number;
        std::uint32_t sum = layer + 1;
        for (std::uint32_t past = 0; past <= position; ++past) {
          const BlockId block = sequence.blocks.at(past / kFakeBlockTokens);
          sum += (past + 1) * blocks.at(block).at(past % kFakeBlockTokens);
        }
        number = sum % kFakeVocabulary;
      }
      boundary_.insert(boundary_.end(), 2, static_cast<float>(number));
      numbers_of_rows_[row] = number;
      final_rows_.push_back(static_cast<float>(number) / 7.0F);
      final_rows_.push_back(-static_cast<float>(number * number));
    }
    if (!info_.is_last) return;
    for (const std::uint32_t row : sequence.sampled_rows) {
      const std::size_t begin = logits_.size();
      logits_.resize(begin + kFakeVocabulary, 0.0F);
      logits_[begin + numbers_of_rows_.at(row)] = 1.0F;
    }
  }

  engine::StageInfo info_;
  std::optional<SequenceId> held_;  ///< stateful only
  std::uint32_t held_tokens_ = 0;
  std::map<std::uint32_t, Blocks> kv_;  ///< by layer
  std::map<std::uint32_t, std::uint32_t> numbers_of_rows_;
  std::vector<float> boundary_;
  std::vector<float> logits_;
  std::vector<float> final_rows_;
};

/// The mean of what the head of the whole fake model reads of the prompt's rows.
inline std::vector<float> fake_mean(const std::vector<std::int64_t>& prompt, std::uint32_t layers) {
  FakeEngine engine({0, layers}, layers);
  engine::SequenceRows rows;
  rows.new_tokens = static_cast<std::uint32_t>(prompt.size());
  for (std::uint32_t block = 0; block * kFakeBlockTokens < prompt.size(); ++block) {
    rows.blocks.emplace_back(block);
  }
  engine::StageBatch batch;
  batch.sequences = {rows};
  batch.tokens = prompt;
  batch.wants_final_rows = true;
  const auto final_rows = engine.run(batch).value().final_rows;
  std::vector<double> sums(2);
  for (std::size_t i = 0; i < final_rows.size(); ++i) sums[i % 2] += double{final_rows[i]};
  const auto count = static_cast<double>(prompt.size());
  return {static_cast<float>(sums[0] / count), static_cast<float>(sums[1] / count)};
}

/// The greedy answer of the whole fake model of `layers` layers.
inline std::vector<std::int64_t> fake_answer(std::vector<std::int64_t> prompt, std::uint32_t layers,
                                             std::size_t count) {
  FakeEngine engine({0, layers}, layers);
  const std::size_t begin = prompt.size();
  engine::SequenceRows rows;
  for (std::uint32_t block = 0; block * kFakeBlockTokens < begin + count; ++block) {
    rows.blocks.emplace_back(block);
  }
  while (prompt.size() < begin + count) {
    rows.new_tokens = static_cast<std::uint32_t>(prompt.size()) - rows.past_tokens;
    rows.sampled_rows = {rows.new_tokens - 1};
    engine::StageBatch batch;
    batch.sequences = {rows};
    batch.tokens.assign(prompt.begin() + rows.past_tokens, prompt.end());
    const auto logits = engine.run(batch).value().logits;
    rows.past_tokens += rows.new_tokens;
    std::int64_t token = 0;
    while (logits[static_cast<std::size_t>(token)] == 0.0F) ++token;
    prompt.push_back(token);
  }
  return {prompt.begin() + static_cast<std::ptrdiff_t>(begin), prompt.end()};
}

}  // namespace paceline::worker
