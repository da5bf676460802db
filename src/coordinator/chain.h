// A chain of workers that runs steps: assigned, loaded, warmed up.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/engine_kind.h"
#include "base/error.h"
#include "base/link_precision.h"
#include "base/profile.h"
#include "coordinator/step_runner.h"
#include "coordinator/worker_pool.h"
#include "sched/scheduler.h"
#include "wire/messages.h"

namespace paceline::coordinator {

/// What a chain is made of; chain_plan.h makes one.
struct ChainPlan {
  std::string package_digest;
  std::vector<wire::RouteEntry> route;
  /// This machine's worker, which has the first and the last stage of a private chain: it is
  /// reached over this process only, and its address is not told to others. Empty: not private.
  std::string home;
  Profile profile = Profile::kFast;
  EngineKind engine = EngineKind::kPaged;
  LinkPrecision link_precision = LinkPrecision::kNative;
  std::uint32_t threads = 0;  ///< per stage; 0: the worker's choice
  std::uint32_t context_tokens = 0;
  std::uint32_t kv_blocks = 0;
  std::uint32_t logical_block_tokens = 32;
};

/// What a stage's process holds.
struct StageReport {
  wire::RouteEntry entry;
  std::string worker_name;
  wire::StageReady ready;
};

/// Thread-compatible: one user. Ends its stages when it is destroyed.
class Chain final : public StepRunner {
 public:
  /// Assigns all stages, which load side by side, and waits for them; then a first token goes
  /// through the whole chain, which makes the links and lets each device prepare its weights.
  /// Ready means: that token came back.
  static Result<std::unique_ptr<Chain>> start(std::unique_ptr<WorkerPool> pool, ChainPlan plan,
                                              const Clock& clock);

  Result<StepId> submit(wire::Step step) override;
  Result<std::optional<wire::StepResult>> await(StepId step, Deadline deadline) override;
  void wake() override;
  std::optional<Error> failure() const override { return pool_->failure(); }

  const ChainPlan& plan() const { return plan_; }
  const std::vector<StageReport>& stages() const { return stages_; }
  /// Lowers what is planned to what all stages can: sequences at a time, shared KV, means in a
  /// step's result.
  void limit(sched::SchedulerOptions& options) const;
  /// Why no answer's form can be asked for; empty where it can.
  std::string why_no_grammars() const;
  /// Values of the mean of a prompt's rows, and why there is none where it is 0.
  std::uint64_t mean_width() const { return stages_.back().ready.mean_width; }
  std::string why_no_means() const;
  /// Each worker, and whether it still answers. Any thread.
  std::map<std::string, bool> nodes() const { return pool_->nodes(); }
  /// Bytes of boundary tensors that each row has on its way from a stage to the next one: one
  /// number for each hop.
  const std::vector<std::uint64_t>& hop_row_bytes() const { return hop_row_bytes_; }
  /// Memory of each stage's process now, by worker address.
  Result<std::map<std::string, wire::Pong>> status();
  /// The same as far as it is known, from any thread and without waiting.
  std::map<std::string, WorkerState> workers() const { return pool_->states(); }

 private:
  Chain(std::unique_ptr<WorkerPool> pool, ChainPlan plan, const Clock& clock);
  wire::Address address(std::size_t stage, StepId step) const;
  Status set_up_parts();
  Status assign();
  Status warm_up();
  void count_hops();

  std::unique_ptr<WorkerPool> pool_;
  const ChainPlan plan_;
  const Clock& clock_;
  const ChainId id_;
  std::vector<StageReport> stages_;
  std::vector<std::uint64_t> hop_row_bytes_;
  StepId last_step_{0};
  bool is_sampled_apart_ = false;  ///< sampling goes straight to the last stage
};

}  // namespace paceline::coordinator
