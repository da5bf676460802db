// Works off the batches: a bounded number of lines is asked at a time, and each result is committed
// before the next line takes its place.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "batch/batch_store.h"
#include "http/exchange.h"

namespace paceline::batch {

/// Answers one request as if it had come by HTTP. Must not block.
using Executor =
    std::function<void(const std::string& endpoint, std::shared_ptr<http::Exchange> exchange)>;

struct RunnerOptions {
  std::size_t max_in_flight = 16;
  /// Where the executor is busy or not ready (429, 503): until it is asked again.
  Duration retry_after = std::chrono::seconds(2);
  Duration look_every = std::chrono::seconds(20);  ///< for what only time ends
  std::function<std::int64_t()> now;               ///< Unix seconds
};

/// Lifecycle: runs from the constructor to the destructor, which leaves what is in flight to the
/// next start. Thread-safe. The store must outlive it; answers may come later and are then dropped.
class BatchRunner {
 public:
  BatchRunner(BatchStore& store, Executor execute, RunnerOptions options);
  ~BatchRunner();

  /// There is something new to do.
  void wake();

 private:
  /// What answers are put into; outlives the runner where an answer does.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::vector<FinishedLine> finished;
    std::vector<LineKey> refused;  ///< for now
    bool has_news = false;
  };
  class LineExchange;

  void run(const std::stop_token& stop);
  /// One round; false where the store failed.
  bool advance();
  Status take_answers();
  Status ask_more();
  void ask(WaitingLine line);

  BatchStore& store_;
  const Executor execute_;
  const RunnerOptions options_;
  const std::shared_ptr<Inbox> inbox_;
  /// Cancelled by the destructor, as nobody would hear of them.
  std::map<LineKey, std::weak_ptr<LineExchange>> in_flight_;
  TimePoint asks_from_ = {};
  TimePoint looks_at_ = {};
  std::jthread thread_;  ///< the last: it uses all the others
};

}  // namespace paceline::batch
