#include "obs/span_exporter.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace paceline::obs {

SpanExporter::SpanExporter(SpanExporterOptions options, Send send, Metrics& metrics)
    : options_(std::move(options)),
      send_(std::move(send)),
      metrics_(metrics),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

SpanExporter::~SpanExporter() {
  thread_.request_stop();
  thread_.join();
  while (send_batch()) {
  }
  metrics_.count_spans(0, queue_.size());
}

void SpanExporter::add(std::vector<Span> spans) {
  std::size_t dropped = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::size_t room = options_.max_queued - std::min(options_.max_queued, queue_.size());
    const std::size_t taken = std::min(room, spans.size());
    dropped = spans.size() - taken;
    std::move(spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(taken),
              std::back_inserter(queue_));
    if (queue_.size() >= options_.max_batch) changed_.notify_all();
  }
  if (dropped > 0) metrics_.count_spans(0, dropped);
}

void SpanExporter::run(const std::stop_token& stop) {
  bool is_there = true;
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      // A receiver that is not there is not asked more often because there is more to say.
      changed_.wait_for(lock, stop, options_.interval,
                        [&] { return is_there && queue_.size() >= options_.max_batch; });
    }
    if (!stop.stop_requested()) is_there = send_batch();
  }
}

bool SpanExporter::send_batch() {
  std::vector<Span> batch;
  {
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<std::ptrdiff_t>(std::min(options_.max_batch, queue_.size()));
    batch.assign(queue_.begin(), queue_.begin() + count);
  }
  if (batch.empty()) return false;
  const SpanDelivery delivery = send_(otlp_json(batch, options_.service_name, options_.version));
  note_delivery(delivery);
  if (delivery == SpanDelivery::kLater) return false;
  const bool is_taken = delivery == SpanDelivery::kTaken;
  metrics_.count_spans(is_taken ? batch.size() : 0, is_taken ? 0 : batch.size());
  const std::lock_guard lock(mutex_);
  // Only this takes from the front.
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(batch.size()));
  return true;
}

/// Once for each time that it goes wrong, not for each batch.
void SpanExporter::note_delivery(SpanDelivery delivery) {
  const bool is_well = delivery == SpanDelivery::kTaken;
  if (is_well && is_complained_of_) log(LogLevel::kInfo, "spans are taken again");
  if (!is_well && !is_complained_of_) {
    log(LogLevel::kWarn, delivery == SpanDelivery::kRefused
                             ? "spans are refused by the receiver of traces"
                             : "the receiver of traces is not there; spans wait, and may be lost");
  }
  is_complained_of_ = !is_well;
}

}  // namespace paceline::obs
