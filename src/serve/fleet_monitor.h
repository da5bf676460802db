// The fleet as it is, for the page at / and whoever else asks GET /fleet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "http/exchange.h"
#include "http/router.h"
#include "obs/request_log.h"
#include "serve/fleet_samples.h"
#include "serve/model_registry.h"

namespace paceline::serve {

/// Looks at all models once in a while and remembers what it saw, so that a page that is opened
/// shows the minutes before. Nothing of prompts and answers is here.
///
/// Lifecycle: start() -> looks by itself until it is destroyed. Thread-safe. The registry, the log
/// and the clock must outlive it.
class FleetMonitor {
 public:
  struct Options {
    Duration interval = std::chrono::seconds(1);
    std::size_t kept_samples = 600;
  };
  FleetMonitor(const ModelRegistry& registry, const obs::RequestLog& log, const Clock& clock,
               const Options& options);
  FleetMonitor(const ModelRegistry& registry, const obs::RequestLog& log, const Clock& clock)
      : FleetMonitor(registry, log, clock, Options()) {}

  void start();
  /// One look at all models.
  void sample();

  std::vector<http::Route> routes();
  /// GET /fleet?sample=N&request=M: the state of now, samples after number N, requests after M.
  void show(http::Exchange& exchange);

 private:
  struct Seen {
    explicit Seen(std::size_t kept) : samples(kept) {}
    std::weak_ptr<ServedModel> model;
    ModelLoad load;  ///< of the last sample
    FleetSamples samples;
  };
  Seen& seen_of(const ModelRegistry::Listed& listed);
  void forget_others(const std::vector<ModelRegistry::Listed>& listed);
  api::Json model_json(const ModelRegistry::Listed& listed, std::uint64_t after);

  const ModelRegistry& registry_;
  const obs::RequestLog& log_;
  const Clock& clock_;
  const Options options_;
  const std::int64_t started_at_;
  std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::map<std::string, Seen> seen_;  ///< by a model's first name
  std::jthread thread_;               ///< the last: it uses all the others
};

}  // namespace paceline::serve
