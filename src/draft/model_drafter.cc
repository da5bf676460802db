#include "draft/model_drafter.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace paceline::draft {
namespace {

constexpr double kNew = 0.1;
/// A device's first batches take many times what the later ones do.
constexpr std::uint64_t kWarmUp = 2;
/// Asked for as long ago as all lines have been asked this often: nobody wants its guesses now.
constexpr std::uint64_t kIdleRounds = 8;

}  // namespace

ModelDrafter::ModelDrafter(std::unique_ptr<engine::StageEngine> engine, const Clock& clock,
                           const DrafterOptions& options)
    : engine_(std::move(engine)), clock_(clock), options_(options), pool_(options.kv_blocks) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

ModelDrafter::~ModelDrafter() {
  thread_.request_stop();
  thread_.join();
}

void ModelDrafter::expect(const sampling::SamplingSpec& sampling, std::uint32_t prompt_tokens) {
  const std::lock_guard lock(mutex_);
  expected_ = sampling;
  expected_prompt_tokens_ = prompt_tokens;
}

void ModelDrafter::open(spec::LineId line) {
  const std::lock_guard lock(mutex_);
  lines_.try_emplace(line, expected_, expected_prompt_tokens_);
  ++expected_.choice;
}

void ModelDrafter::finish(spec::LineId line) {
  const std::lock_guard lock(mutex_);
  const auto found = lines_.find(line);
  if (found == lines_.end()) return;
  // The engine may still be writing to its blocks: whoever gets them writes later.
  release(found->second);
  lines_.erase(found);
}

spec::Guess ModelDrafter::guess(spec::LineId id, std::span<const std::int64_t> known,
                                std::span<const std::int64_t> assumed,
                                const spec::GuessSize& size) {
  const std::lock_guard lock(mutex_);
  const auto found = lines_.find(id);
  const std::size_t text = known.size() + assumed.size();
  if (found == lines_.end() || stats_.failure || text >= options_.context_tokens) return {};
  DraftLine& line = found->second;
  line.is_awaited = false;
  line.last_use = ++uses_;
  if (!line.follow(known, assumed, engine_->info().vocabulary_size)) return {};
  const std::size_t room = options_.context_tokens - text;
  const std::size_t count = std::min<std::size_t>(size.count, room);
  const std::size_t horizon = std::min<std::size_t>(std::size_t{size.count} + size.ahead, room);
  if (!make_room(line, text + horizon)) {
    release(line);
    line.want(0, 0);
    return {};
  }
  line.want(count, horizon);
  changed_.notify_all();
  if (line.is_ready()) return {line.guessed(count), false};
  if (line.rows_behind() > options_.awaited_tokens) return {};
  line.is_awaited = true;
  return {{}, true};
}

double ModelDrafter::guess_us() const {
  const std::lock_guard lock(mutex_);
  return guess_us_;
}

void ModelDrafter::set_listener(std::function<void()> listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

DrafterStats ModelDrafter::stats() const {
  const std::lock_guard lock(mutex_);
  DrafterStats stats = stats_;
  stats.lines = lines_.size();
  stats.free_blocks = pool_.free_blocks();
  return stats;
}

// --- blocks ---

bool ModelDrafter::make_room(DraftLine& line, std::size_t tokens) {
  const std::size_t needed = (tokens + options_.block_tokens - 1) / options_.block_tokens;
  if (needed <= line.blocks.size()) return true;
  const auto more = static_cast<std::uint32_t>(needed - line.blocks.size());
  while (pool_.free_blocks() < more) {
    if (!evict_one()) return false;
  }
  const auto blocks = pool_.allocate(more);
  if (!blocks) return false;
  line.blocks.insert(line.blocks.end(), blocks->begin(), blocks->end());
  return true;
}

bool ModelDrafter::evict_one() {
  DraftLine* oldest = nullptr;
  for (auto& [id, line] : lines_) {
    if (line.blocks.empty() || (oldest != nullptr && oldest->last_use <= line.last_use)) continue;
    oldest = &line;
  }
  if (oldest == nullptr || oldest->last_use + kIdleRounds * lines_.size() >= uses_) return false;
  release(*oldest);
  oldest->want(0, 0);
  return true;
}

void ModelDrafter::release(DraftLine& line) {
  for (const BlockId block : line.blocks) pool_.release(block);
  line.blocks.clear();
  line.forget_rows();
}

// --- the thread ---

bool ModelDrafter::has_work() const {
  return !stats_.failure && std::any_of(lines_.begin(), lines_.end(), [](const auto& entry) {
    return entry.second.needs_rows();
  });
}

std::vector<SentRows> ModelDrafter::next_rows() const {
  std::vector<std::pair<spec::LineId, const DraftLine*>> wanting;
  for (const auto& [id, line] : lines_) {
    if (line.needs_rows()) wanting.emplace_back(id, &line);
  }
  // Those who are nearly there first, and those asked for longest ago: a long text takes what the
  // others leave.
  std::stable_sort(wanting.begin(), wanting.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->missing_rows(), a.second->last_use) <
           std::pair(b.second->missing_rows(), b.second->last_use);
  });
  std::vector<SentRows> all;
  std::size_t budget = options_.step_tokens;
  for (const auto& [id, line] : wanting) {
    if (budget == 0) break;
    all.push_back(line->next_rows(id, budget));
    budget -= all.back().tokens.size();
  }
  return all;
}

engine::StageBatch ModelDrafter::batch_of(const std::vector<SentRows>& rows) const {
  engine::StageBatch batch;
  for (const SentRows& sent : rows) {
    engine::SequenceRows sequence;
    sequence.sequence = SequenceId(sent.line.value());
    sequence.past_tokens = static_cast<std::uint32_t>(sent.past);
    sequence.new_tokens = static_cast<std::uint32_t>(sent.tokens.size());
    sequence.blocks = lines_.at(sent.line).blocks;
    if (sent.is_sampled) sequence.sampled_rows = {sequence.new_tokens - 1};
    batch.tokens.insert(batch.tokens.end(), sent.tokens.begin(), sent.tokens.end());
    batch.sequences.push_back(std::move(sequence));
  }
  return batch;
}

void ModelDrafter::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return has_work(); })) {
    if (stop.stop_requested()) return;
    const std::vector<SentRows> rows = next_rows();
    const engine::StageBatch batch = batch_of(rows);
    lock.unlock();
    const TimePoint begin = clock_.now();
    const auto output = engine_->run(batch);
    const Duration took = clock_.now() - begin;
    lock.lock();
    if (!settle(rows, output, took)) continue;
    lock.unlock();
    tell();
    lock.lock();
  }
}

bool ModelDrafter::settle(const std::vector<SentRows>& rows,
                          const Result<engine::StageOutput>& output, Duration took) {
  if (!output) stats_.failure = output.error().with_context("the draft model");
  ++stats_.batches;
  const std::size_t vocabulary = engine_->info().vocabulary_size;
  std::size_t sampled = 0;
  std::size_t count = 0;
  for (const SentRows& sent : rows) {
    count += sent.tokens.size();
    std::span<const float> logits;
    if (output && sent.is_sampled)
      logits = output->logits.subspan(vocabulary * sampled++, vocabulary);
    const auto line = lines_.find(sent.line);
    if (!output || line == lines_.end()) continue;
    const std::size_t before = line->second.guesses();
    // A draw that cannot be made ends the guesses: the chain meets the same, and says so.
    (void)line->second.settle(sent, logits, workspace_);
    if (line->second.guesses() > before) ++stats_.guesses;
  }
  if (output && stats_.batches > kWarmUp && count <= 2 * rows.size()) {
    const double us = to_microseconds(took);
    // What was once too slow is not asked again: a stall must not count for long.
    guess_us_ += (guess_us_ == 0 ? 1.0 : us < guess_us_ ? 0.5 : kNew) * (us - guess_us_);
  }
  bool has_news = false;
  for (auto& [id, line] : lines_) {
    if (!line.is_awaited || !(line.is_ready() || stats_.failure)) continue;
    line.is_awaited = false;
    has_news = true;
  }
  return has_news;
}

void ModelDrafter::tell() {
  const std::lock_guard lock(listener_mutex_);
  if (listener_) listener_();
}

}  // namespace paceline::draft
