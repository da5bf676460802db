// Sends spans away in batches, on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "obs/metrics.h"
#include "obs/span.h"

namespace paceline::obs {

enum class SpanDelivery {
  kTaken,
  kLater,    ///< the receiver is not there, or busy: the batch is sent again
  kRefused,  ///< it will never take them
};

struct SpanExporterOptions {
  std::string service_name = "paceline";
  std::string version = {};
  std::size_t max_queued = 4096;  ///< spans; more are dropped
  std::size_t max_batch = 512;
  Duration interval = std::chrono::seconds(2);  ///< between batches, unless one is full
};

/// Lifecycle: sends from the constructor to the destructor, which tries what is left once.
/// Thread-safe. The metrics must outlive it.
class SpanExporter {
 public:
  /// Gives a body to the receiver; may block, for a bounded time.
  using Send = std::function<SpanDelivery(const std::string& body)>;

  SpanExporter(SpanExporterOptions options, Send send, Metrics& metrics);
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  /// Never waits for the receiver. What there is no room for is dropped, and counted.
  void add(std::vector<Span> spans);

 private:
  void run(const std::stop_token& stop);
  /// One batch; false where the receiver is not there.
  bool send_batch();
  void note_delivery(SpanDelivery delivery);

  const SpanExporterOptions options_;
  const Send send_;
  Metrics& metrics_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Span> queue_;
  bool is_complained_of_ = false;  ///< of the thread alone
  std::jthread thread_;            ///< the last: it uses all the others
};

}  // namespace paceline::obs
