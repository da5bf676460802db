// Random workloads against the simulated chain: whatever joins, leaves, is preempted, forked,
// guessed, undone or lost, each answer is the one that its prompt gets alone.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "sched/scheduler.h"
#include "sched/simulated_chain_testing.h"

namespace paceline::sched {
namespace {

using Tokens = std::vector<std::int64_t>;

/// Guesses by computing ahead; each guess is right with a given chance.
class OracleDrafts final : public spec::DraftSource {
 public:
  OracleDrafts(SimulatedModel model, std::uint32_t seed) : model_(model), random_(seed) {}

  void open(spec::LineId line, std::string_view salt) override {
    salts_[line] = salt.empty() ? 0 : 1;
  }
  spec::Draft propose(spec::LineId line, std::span<const std::int64_t> known,
                      std::span<const std::int64_t> assumed, const spec::DraftRoom& room) override {
    Tokens text(known.begin(), known.end());
    text.insert(text.end(), assumed.begin(), assumed.end());
    spec::Draft draft;
    const std::uint32_t count = static_cast<std::uint32_t>(random_()) % (room.most + 1);
    while (draft.tokens.size() < count) {
      const bool is_right = random_() % 10 < 8;
      text.push_back(is_right ? model_.next(text, {salts_.at(line), 0}) : 1);
      draft.tokens.push_back(text.back());
    }
    return draft;
  }
  void observe(spec::LineId line, const spec::DraftOutcome& outcome) override {
    EXPECT_TRUE(salts_.contains(line));
    EXPECT_LE(outcome.accepted, outcome.proposed);
  }
  void finish(spec::LineId line, std::span<const std::int64_t>) override {
    EXPECT_EQ(salts_.erase(line), 1U);
  }
  std::size_t open_lines() const { return salts_.size(); }

 private:
  SimulatedModel model_;
  std::mt19937 random_;
  std::map<spec::LineId, std::uint64_t> salts_;
};

struct Workload {
  std::uint32_t seed = 0;
  SchedulerOptions options;
  bool has_drafts = false;
  int submit_percent = 12;
  int undo_permille = 8;
};

class RandomRun {
 public:
  explicit RandomRun(const Workload& workload)
      : workload_(workload),
        random_(workload.seed),
        drafts_(model_, workload.seed),
        scheduler_(workload.options, workload.has_drafts ? &drafts_ : nullptr) {
    new_chain();
  }

  void run(int steps) {
    while (planned_ < steps && !testing::Test::HasFailure()) {
      act();
      const Status status = scheduler_.check();
      ASSERT_TRUE(status) << status.error().message();
    }
    // Everything that was not cancelled is completed, and nothing is left anywhere.
    for (int i = 0; i < 100000 && !scheduler_.is_idle() && !testing::Test::HasFailure(); ++i) {
      if (!plan()) settle_oldest();
    }
    ASSERT_TRUE(scheduler_.is_idle());
    EXPECT_TRUE(expected_.empty()) << expected_.size() << " answers never came";
    EXPECT_EQ(scheduler_.stats().available_blocks, workload_.options.kv_blocks);
    EXPECT_EQ(chain_->open_sequences(), 0U) << "a stage was not told of an end";
    EXPECT_EQ(drafts_.open_lines(), 0U);
  }

  int planned() const { return planned_; }
  int completed = 0;
  int cancelled = 0;
  int undone = 0;
  int forks = 0;
  int copies = 0;
  int refused = 0;
  int sums = 0;
  SchedulerStats stats() const { return scheduler_.stats(); }

 private:
  struct Expected {
    Tokens answer;
    Tokens got;
    std::uint32_t prompt_tokens = 0;
    std::set<std::uint32_t> unscored;  ///< prompt rows that were not sampled yet
  };
  struct Sent {
    StepPlan plan;
    Result<std::vector<RowSample>> result;
  };

  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_()) % bound; }

  void new_chain() {
    chain_ = std::make_unique<SimulatedChain>(
        model_, workload_.options.kv_blocks, workload_.options.block_tokens, [this](ChoiceKey key) {
          const auto salt = salts_.find(key.request);
          return SimulatedText{salt == salts_.end() ? 0 : salt->second, key.choice};
        });
  }

  void act() {
    const std::uint32_t kind = below(1000);
    if (kind < static_cast<std::uint32_t>(workload_.submit_percent) * 10) {
      submit();
    } else if (kind < 500) {
      plan();
    } else if (kind < 960) {
      settle_oldest();
    } else if (kind < 980) {
      cancel();
    } else if (kind < 995) {
      scheduler_.set_pipeline({1 + below(3), 1 + below(4), 4 + below(60)});
    } else if (below(10) == 0) {
      lose_stages();
    }
  }

  Tokens random_prompt() {
    const std::uint32_t most = workload_.options.context_tokens - 1;
    Tokens prompt(1 + below(below(4) == 0 ? most : most / 3));
    // A few texts, with few branches.
    const std::uint32_t text = below(3);
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      prompt[i] =
          1 + static_cast<std::int64_t>((text * 31 + i * 7 + (below(40) == 0 ? 1 : 0)) % 49);
    }
    return prompt;
  }

  void submit() {
    Request request;
    request.id = RequestId(++last_request_);
    request.prompt = random_prompt();
    request.max_tokens = 1 + below(40);
    request.choices = below(6) == 0 ? 1 + below(4) : 1;
    request.priority = static_cast<std::int32_t>(below(3)) - 1;
    request.arrival = TimePoint(std::chrono::milliseconds(planned_));
    request.end_tokens = {kSimulatedEnd};
    request.samples_prompt = below(8) == 0;
    request.sums_prompt = below(8) == 0;
    request.keeps_place = below(20) == 0;
    if (request.sums_prompt) request.max_tokens = request.choices = 1;
    const std::uint64_t salt = below(3) == 0 ? 1 : 0;
    if (salt != 0) request.cache_salt = "other";
    const Request copy = request;
    const Status accepted = scheduler_.submit(std::move(request));
    if (!accepted) {
      // Too many wait, or it does not fit the KV cache.
      ++refused;
      return;
    }
    salts_[copy.id] = salt;
    if (copy.sums_prompt) summed_.insert(copy.id);
    for (std::uint32_t choice = 0; choice < copy.choices; ++choice) {
      const std::size_t most = std::min<std::size_t>(
          copy.max_tokens,
          std::min<std::size_t>(
              workload_.options.context_tokens,
              std::size_t{workload_.options.kv_blocks} * workload_.options.block_tokens + 1) -
              copy.prompt.size());
      Expected& expected = expected_[{copy.id, choice}];
      expected.answer = model_.answer(copy.prompt, {salt, choice}, most);
      expected.prompt_tokens = static_cast<std::uint32_t>(copy.prompt.size());
      if (!copy.samples_prompt || choice > 0) continue;
      for (std::uint32_t row = 0; row < copy.prompt.size(); ++row) expected.unscored.insert(row);
    }
  }

  bool plan() {
    auto step = scheduler_.plan(TimePoint(std::chrono::milliseconds(planned_)));
    if (!step) return false;
    ++planned_;
    copies += static_cast<int>(step->copies.size());
    note_sums(*step);
    for (const PlannedRows& rows : step->sequences) forks += rows.fork_from ? 1 : 0;
    const auto chance = static_cast<std::uint32_t>(workload_.undo_permille);
    if (below(1000) < chance) {
      // It never left: no stage has seen it.
      EXPECT_TRUE(scheduler_.rollback(step->id));
      ++undone;
      return true;
    }
    const bool breaks = below(1000) < chance;
    const auto broken = breaks ? std::optional(below(model_.stages)) : std::nullopt;
    auto result = chain_->execute(*step, broken);
    // Steps behind a broken one meet stages that disagree; all others must be accepted.
    if (!result && !breaks) {
      EXPECT_TRUE(has_broken_step()) << result.error().message();
    }
    sent_.push_back({std::move(*step), std::move(result)});
    return true;
  }

  bool has_broken_step() const {
    return std::any_of(sent_.begin(), sent_.end(), [](const Sent& sent) { return !sent.result; });
  }

  void settle_oldest() {
    if (sent_.empty()) return;
    const Sent sent = std::move(sent_.front());
    sent_.pop_front();
    if (!sent.result) {
      ASSERT_TRUE(scheduler_.rollback(sent.plan.id));
      sent_.clear();
      ++undone;
      return;
    }
    note_scores(sent.plan);
    const auto progress = scheduler_.commit(sent.plan.id, *sent.result);
    ASSERT_TRUE(progress) << progress.error().message();
    for (const Progress& one : *progress) take(one, *sent.result);
  }

  /// All rows of such a prompt, in order and from 0, for each number that it has at the stages.
  void note_sums(const StepPlan& step) {
    std::uint32_t in_step = 0;
    for (const PlannedRows& rows : step.sequences) {
      if (!summed_.contains(rows.key.request)) continue;
      ++in_step;
      EXPECT_EQ(rows.past_tokens, summed_rows_[rows.sequence]);
      EXPECT_FALSE(rows.fork_from || rows.truncate_to || rows.drafts > 0);
      summed_rows_[rows.sequence] += static_cast<std::uint32_t>(rows.tokens.size());
    }
    EXPECT_LE(in_step, workload_.options.max_sums);
    sums += static_cast<int>(in_step);
  }

  void note_scores(const StepPlan& step) {
    for (const PlannedRows& rows : step.sequences) {
      const auto found = expected_.find(rows.key);
      if (found == expected_.end()) continue;
      for (const std::uint32_t row : rows.sampled_rows) {
        found->second.unscored.erase(rows.past_tokens + row);
      }
    }
  }

  void take(const Progress& progress, const std::vector<RowSample>& samples) {
    const auto found = expected_.find(progress.key);
    ASSERT_NE(found, expected_.end());
    Expected& expected = found->second;
    for (std::size_t i = 0; i < progress.tokens.size(); ++i) {
      ASSERT_EQ(progress.tokens[i], samples.at(progress.first_sample + i).token);
      expected.got.push_back(progress.tokens[i]);
    }
    ASSERT_LE(expected.got.size(), expected.answer.size());
    ASSERT_TRUE(std::equal(expected.got.begin(), expected.got.end(), expected.answer.begin()))
        << "request " << progress.key.request.value() << " choice " << progress.key.choice;
    ASSERT_EQ(progress.is_finished, expected.got.size() == expected.answer.size());
    if (!progress.is_finished) return;
    ASSERT_TRUE(expected.unscored.empty()) << "prompt rows without a sample";
    ASSERT_EQ(progress.reason == FinishReason::kEndToken, expected.answer.back() == kSimulatedEnd);
    expected_.erase(found);
    ++completed;
  }

  void cancel() {
    if (expected_.empty()) return;
    const ChoiceKey key =
        std::next(expected_.begin(), below(static_cast<std::uint32_t>(expected_.size())))->first;
    ++cancelled;
    if (below(2) == 0) {
      ASSERT_TRUE(scheduler_.stop(key));
      expected_.erase(key);
      return;
    }
    ASSERT_TRUE(scheduler_.cancel(key.request));
    std::erase_if(expected_, [&](const auto& entry) { return entry.first.request == key.request; });
  }

  void lose_stages() {
    scheduler_.reset();
    sent_.clear();
    new_chain();
    ++undone;
  }

  const Workload workload_;
  std::mt19937 random_;
  SimulatedModel model_;
  OracleDrafts drafts_;
  Scheduler scheduler_;
  std::unique_ptr<SimulatedChain> chain_;
  std::map<RequestId, std::uint64_t> salts_;
  std::set<RequestId> summed_;
  std::map<SequenceId, std::uint32_t> summed_rows_;  ///< planned, by number at the stages
  std::map<ChoiceKey, Expected> expected_;
  std::deque<Sent> sent_;
  std::uint64_t last_request_ = 0;
  int planned_ = 0;
};

/// 1, 7: waits for each token; 2: references ahead; 3: drafts; 4: drafts ahead; 5: hardly any
/// blocks; 6: a single sequence at a time.
Workload workload(std::uint32_t seed) {
  Workload workload;
  workload.seed = seed;
  SchedulerOptions& options = workload.options;
  options.context_tokens = 120;
  options.kv_blocks = 80;
  options.block_tokens = 4;
  options.max_running = 8;
  options.max_waiting = 20;
  options.max_drafts = 5;
  options.max_sums = 1 + seed % 3;
  options.priority_step = std::chrono::milliseconds(50);
  const std::uint32_t kind = seed % 7;
  if (kind == 2) {
    options.steps_ahead = 2;
    options.resolves_references = true;
  }
  workload.has_drafts = kind == 3 || kind == 4 || kind == 5;
  if (kind == 4) options.steps_ahead = 2;
  if (kind == 5) options.kv_blocks = 31;
  if (kind == 6) options.max_running = 1;
  return workload;
}

class SchedulerRandomTest : public testing::TestWithParam<std::uint32_t> {};

TEST_P(SchedulerRandomTest, EachAnswerIsTheOneThatItsPromptGetsAlone) {
  SCOPED_TRACE(fmt::format("seed {}", GetParam()));
  RandomRun run(workload(GetParam()));
  run.run(3000);
  if (HasFailure()) return;
  EXPECT_GT(run.completed, 60);
  EXPECT_GT(run.cancelled, 20);
  EXPECT_GT(run.undone, 10);
  EXPECT_GT(run.stats().reused_tokens, 500U);
  EXPECT_GT(run.copies, 5);
  EXPECT_GT(run.sums, 20);
  if (GetParam() % 7 != 6) {
    EXPECT_GT(run.forks, 5);
    EXPECT_GT(run.stats().preemptions, 5U);
  }
  if (GetParam() % 7 == 4) {
    EXPECT_GT(run.stats().accepted_drafts, 200U);
  }
}

TEST(SchedulerApartTest, NothingIsSharedWhereKvIsKeptApart) {
  for (const std::uint32_t seed : {4U, 5U, 6U}) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Workload apart = workload(seed);
    apart.options.shares_kv = false;
    RandomRun run(apart);
    run.run(1500);
    if (testing::Test::HasFailure()) return;
    EXPECT_GT(run.completed, 20);
    EXPECT_EQ(run.stats().reused_tokens, 0U);
    EXPECT_EQ(run.copies, 0);
    EXPECT_EQ(run.forks, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerRandomTest, testing::Range(1U, 15U));

}  // namespace
}  // namespace paceline::sched
