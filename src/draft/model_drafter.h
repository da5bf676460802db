// A draft model at the head: guesses for many lines at a time, on a thread of its own.
//
// Every batch takes the next row of each line that wants guesses, and pieces of texts that it has
// not read yet. Guesses are drawn with the sampler of the line's own request, hence with the noise
// that will judge them. It holds a KV cache of its own, for as many lines as fit; the others are
// not followed, and whoever asks looks elsewhere. No prefixes are shared: a draft model is small.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "draft/draft_line.h"
#include "engine/stage_engine.h"
#include "kv/block_pool.h"
#include "spec/draft_model.h"

namespace paceline::draft {

struct DrafterOptions {
  std::uint32_t kv_blocks = 64;  ///< the engine's
  std::uint32_t block_tokens = 32;
  std::uint32_t context_tokens = 4096;  ///< no line is followed beyond
  std::uint32_t step_tokens = 256;      ///< rows of a batch
  /// A line with more unread tokens is not worth waiting for.
  std::uint32_t awaited_tokens = 64;
};

struct DrafterStats {
  std::uint64_t batches = 0;
  std::uint64_t guesses = 0;
  std::size_t lines = 0;  ///< that are open
  std::uint32_t free_blocks = 0;
  std::optional<Error> failure;  ///< of the engine; since then nothing is guessed
};

/// Lifecycle: runs from the constructor to the destructor. Thread-safe, but see spec::DraftModel.
class ModelDrafter final : public spec::DraftModel {
 public:
  /// `engine` has all layers of a model. The clock must outlive the drafter.
  ModelDrafter(std::unique_ptr<engine::StageEngine> engine, const Clock& clock,
               const DrafterOptions& options);
  ~ModelDrafter() override;

  void expect(const sampling::SamplingSpec& sampling, std::uint32_t prompt_tokens) override;
  void open(spec::LineId line) override;
  spec::Guess guess(spec::LineId line, std::span<const std::int64_t> known,
                    std::span<const std::int64_t> assumed, const spec::GuessSize& size) override;
  void finish(spec::LineId line) override;
  double guess_us() const override;
  void set_listener(std::function<void()> listener) override;

  DrafterStats stats() const;

 private:
  void run(const std::stop_token& stop);
  bool has_work() const;
  std::vector<SentRows> next_rows() const;
  engine::StageBatch batch_of(const std::vector<SentRows>& rows) const;
  /// Whether somebody waits for what has come.
  bool settle(const std::vector<SentRows>& rows, const Result<engine::StageOutput>& output,
              Duration took);
  void tell();
  /// Blocks for `tokens` tokens of it, if need be those of a line that nobody asks for any more.
  bool make_room(DraftLine& line, std::size_t tokens);
  bool evict_one();
  void release(DraftLine& line);

  const std::unique_ptr<engine::StageEngine> engine_;
  const Clock& clock_;
  const DrafterOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  kv::BlockPool pool_;
  std::map<spec::LineId, DraftLine> lines_;
  sampling::SamplingSpec expected_;
  std::uint32_t expected_prompt_tokens_ = 0;
  sampling::Workspace workspace_;
  std::uint64_t uses_ = 0;
  double guess_us_ = 0;
  DrafterStats stats_;

  std::mutex listener_mutex_;  ///< before the users' own locks, and never with mutex_ held
  std::function<void()> listener_;
  std::jthread thread_;  ///< the last: it uses all the others
};

}  // namespace paceline::draft
