// Engines on the tiny models, one after the other as workers run them: for the folder's tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cut/test_models.h"
#include "engine/stage_engine.h"

namespace paceline::engine {

inline constexpr std::uint32_t kLayers = 4;
inline constexpr std::uint32_t kVocabulary = 256;
inline constexpr std::uint32_t kBlocks = 16;
inline constexpr std::uint32_t kBlockTokens = 32;
inline constexpr std::uint32_t kBlocksOfSequence = 3;

inline std::filesystem::path directory_of(const std::string& model) {
  return std::filesystem::path(PACELINE_SOURCE_DIR "/tests/tiny_models") / model;
}

inline StageOptions options_for(const std::string& model, LayerRange layers, Profile profile) {
  StageOptions options;
  options.package = directory_of(model);
  options.layers = layers;
  options.profile = profile;
  options.threads = 1;
  options.kv_blocks = kBlocks;
  options.logical_block_tokens = kBlockTokens;
  return options;
}

/// Token `position` of sequence `id`: varied, and the same whatever the batch.
inline std::int64_t token_at(std::uint64_t id, std::uint32_t position) {
  return static_cast<std::int64_t>((17 * id + 31 * position + position * position) % 253 + 3);
}

/// Rows [past, past + count) of sequence `id`, whose blocks are three from 3 x (id - 1); all rows
/// are sampled.
inline SequenceRows rows(std::uint64_t id, std::uint32_t past, std::uint32_t count) {
  SequenceRows result;
  result.sequence = SequenceId(id);
  result.past_tokens = past;
  result.new_tokens = count;
  for (std::uint32_t block = 0; block < kBlocksOfSequence; ++block) {
    result.blocks.emplace_back(static_cast<std::uint32_t>(id - 1) * kBlocksOfSequence + block);
  }
  result.sampled_rows.resize(count);
  std::iota(result.sampled_rows.begin(), result.sampled_rows.end(), 0U);
  return result;
}

inline StageBatch batch_of(std::vector<SequenceRows> sequences) {
  StageBatch batch;
  batch.sequences = std::move(sequences);
  for (const SequenceRows& sequence : batch.sequences) {
    for (std::uint32_t row = 0; row < sequence.new_tokens; ++row) {
      batch.tokens.push_back(token_at(sequence.sequence.value(), sequence.past_tokens + row));
    }
  }
  return batch;
}

using Logits = std::vector<float>;

/// Stages one after the other, as workers would run them.
class EngineChain {
 public:
  using Loader = std::function<Result<std::unique_ptr<StageEngine>>(const StageOptions&)>;

  EngineChain(const std::string& model, std::uint32_t stages, Profile profile, const Loader& load) {
    for (const LayerRange layers : cut::split_evenly(kLayers, stages)) {
      auto engine = load(options_for(model, layers, profile));
      EXPECT_TRUE(engine) << engine.error().message();
      if (engine) engines_.push_back(*std::move(engine));
    }
  }
  Logits run(const StageBatch& batch) { return run_to_end(batch, false).logits; }

  struct Ends {
    Logits logits;
    std::vector<float> final_rows;
  };
  /// Also what the head reads of each row.
  Ends run_with_final_rows(const StageBatch& batch) { return run_to_end(batch, true); }
  StageEngine& stage(std::size_t index) { return *engines_.at(index); }

 private:
  Ends run_to_end(StageBatch batch, bool wants_final_rows) {
    for (const auto& engine : engines_) {
      const bool is_last = engine->info().is_last;
      batch.wants_final_rows = wants_final_rows && is_last;
      const auto output = engine->run(batch);
      EXPECT_TRUE(output) << output.error().message();
      if (!output) return {};
      batch.boundaries = output->boundaries;
      const auto& final_rows = output->final_rows;
      EXPECT_EQ(final_rows.size(),
                batch.wants_final_rows ? batch.rows() * engine->info().final_width : 0);
      if (!is_last) continue;
      return {{output->logits.begin(), output->logits.end()},
              {final_rows.begin(), final_rows.end()}};
    }
    return {};
  }

  std::vector<std::unique_ptr<StageEngine>> engines_;
};

/// The largest difference, which is NaN where a logit is.
inline float difference(const Logits& a, const Logits& b) {
  if (a.size() != b.size() || a.empty()) return NAN;
  float largest = 0.0F;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float one = std::abs(a[i] - b[i]);
    if (!(one <= largest)) largest = one;
  }
  return largest;
}

}  // namespace paceline::engine
