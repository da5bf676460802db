// Puts a load on a chain and records what comes back, request by request and second by second.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "coordinator/batch_generator.h"
#include "load/load_plan.h"
#include "load/statistics.h"

namespace paceline::cli {

struct BenchOptions {
  std::uint32_t concurrency = 8;           ///< of requests that come as others end
  Duration duration = {};                  ///< after it no more are sent; 0: until the load ends
  coordinator::GenerationRequest request;  ///< all but prompt, length and seed
  /// The stages' memory now; asked every few seconds.
  std::function<Result<std::uint64_t>()> resident_bytes;
};

/// The chain at one moment.
struct BenchSample {
  double seconds = 0;  ///< since the begin
  std::size_t running = 0;
  std::size_t waiting = 0;
  std::uint64_t output_tokens = 0;  ///< so far
  std::vector<double> stage_use;    ///< since the sample before
  sched::PipelineShape shape;
};

struct BenchResult {
  std::vector<load::RequestRecord> records;
  std::vector<BenchSample> samples;
  std::vector<std::pair<double, std::uint64_t>> resident_bytes;  ///< by seconds since the begin
  coordinator::BatchStats before;
  coordinator::BatchStats after;
  std::vector<double> stage_use;  ///< of the whole time
};

/// Used once. The generator and the clock must outlive it.
class BenchRunner {
 public:
  BenchRunner(coordinator::BatchGenerator& generator, const Clock& clock, BenchOptions options);

  /// Until the load has ended and everything is answered. `interrupted`: no more are sent, and what
  /// runs is cancelled. An error: the chain failed.
  Result<BenchResult> run(load::LoadPlan& plan, const std::atomic<bool>& interrupted);

 private:
  struct Shared;
  class Listener;

  bool may_send(const load::PlannedRequest& request, Duration now) const;
  void send(load::PlannedRequest request);
  void cancel_due();
  void cancel_all();
  void sample();
  Status sample_memory();
  Duration elapsed() const { return clock_.now() - begin_; }

  coordinator::BatchGenerator& generator_;
  const Clock& clock_;
  const BenchOptions options_;
  TimePoint begin_;
  std::shared_ptr<Shared> shared_;
  std::map<std::uint64_t, sched::RequestId> ids_;  ///< of those under way, by their numbers
  BenchResult result_;
  std::vector<double> busy_s_;
};

}  // namespace paceline::cli
