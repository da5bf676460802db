#include "obs/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>

namespace paceline::obs {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

// Seconds. The first three have vLLM's bounds.
const Buckets& first_token_buckets() {
  static const Buckets buckets = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                  0.25,  0.5,   0.75, 1.0,  2.5,  5.0,  7.5,  10.0,
                                  20.0,  40.0,  80.0, 160., 640., 2560.};
  return buckets;
}
const Buckets& next_token_buckets() {
  static const Buckets buckets = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                  0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
  return buckets;
}
const Buckets& request_buckets() {
  static const Buckets buckets = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                  5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                  60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
  return buckets;
}
const Buckets& compute_buckets() {
  static const Buckets buckets = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                  0.05,   0.1,     0.25,   0.5,   1.0,    2.5,   5.0,  10.0};
  return buckets;
}

Family<Counter>& counter(prometheus::Registry& registry, const std::string& name,
                         const char* help) {
  return prometheus::BuildCounter().Name("paceline_" + name).Help(help).Register(registry);
}
Family<Gauge>& gauge(prometheus::Registry& registry, const std::string& name, const char* help) {
  return prometheus::BuildGauge().Name("paceline_" + name).Help(help).Register(registry);
}
Family<Histogram>& histogram(prometheus::Registry& registry, const std::string& name,
                             const char* help) {
  return prometheus::BuildHistogram().Name("paceline_" + name).Help(help).Register(registry);
}

struct ModelFamilies {
  explicit ModelFamilies(prometheus::Registry& r)
      : running(gauge(r, "num_requests_running", "Requests in the steps of the chain.")),
        waiting(gauge(r, "num_requests_waiting", "Requests that wait to be planned.")),
        kv_use(gauge(r, "kv_cache_usage_perc", "Share of KV blocks in use, 1 is all.")),
        prefix_queries(counter(r, "prefix_cache_queries_total",
                               "Prompt tokens looked for in the prefix cache.")),
        prefix_hits(counter(r, "prefix_cache_hits_total", "Prompt tokens found in it.")),
        prompt_tokens(counter(r, "prompt_tokens_total", "Prompt tokens of all requests.")),
        generation_tokens(counter(r, "generation_tokens_total", "Generated tokens.")),
        first_token(histogram(r, "time_to_first_token_seconds", "From arrival to first token.")),
        next_token(histogram(r, "inter_token_latency_seconds", "From a token to the next one.")),
        whole(histogram(r, "e2e_request_latency_seconds", "From arrival to the last token.")),
        queue(histogram(r, "request_queue_time_seconds", "From arrival to the first step.")),
        prefill(histogram(r, "request_prefill_time_seconds", "First step to first token.")),
        decode(histogram(r, "request_decode_time_seconds", "First token to last token.")),
        ends(counter(r, "request_success_total", "Requests by the reason of their end.")),
        stage_compute(histogram(r, "stage_compute_seconds", "A step's time in a stage.")),
        stage_queue(histogram(r, "stage_queue_seconds", "A step's waiting in a stage.")),
        stage_busy(counter(r, "stage_busy_seconds_total", "Time that a stage has computed.")),
        stage_time(counter(r, "stage_seconds_total", "Time that a stage has been there.")),
        hop_bytes(
            counter(r, "hop_bytes_total", "Bytes of activations from a stage to the next one.")),
        bubble(gauge(r, "pipeline_bubble_ratio",
                     "Share of the last seconds of stages without work.")) {}

  Family<Gauge>& running;
  Family<Gauge>& waiting;
  Family<Gauge>& kv_use;
  Family<Counter>& prefix_queries;
  Family<Counter>& prefix_hits;
  Family<Counter>& prompt_tokens;
  Family<Counter>& generation_tokens;
  Family<Histogram>& first_token;
  Family<Histogram>& next_token;
  Family<Histogram>& whole;
  Family<Histogram>& queue;
  Family<Histogram>& prefill;
  Family<Histogram>& decode;
  Family<Counter>& ends;
  Family<Histogram>& stage_compute;
  Family<Histogram>& stage_queue;
  Family<Counter>& stage_busy;
  Family<Counter>& stage_time;
  Family<Counter>& hop_bytes;
  Family<Gauge>& bubble;
};

class BoundModelMetrics final : public ModelMetrics {
 public:
  BoundModelMetrics(ModelFamilies& families, const std::string& name)
      : families_(families),
        name_(name),
        running_(families.running.Add(labels())),
        waiting_(families.waiting.Add(labels())),
        kv_use_(families.kv_use.Add(labels())),
        prefix_queries_(families.prefix_queries.Add(labels())),
        prefix_hits_(families.prefix_hits.Add(labels())),
        prompt_tokens_(families.prompt_tokens.Add(labels())),
        generation_tokens_(families.generation_tokens.Add(labels())),
        first_token_(families.first_token.Add(labels(), first_token_buckets())),
        next_token_(families.next_token.Add(labels(), next_token_buckets())),
        whole_(families.whole.Add(labels(), request_buckets())),
        queue_(families.queue.Add(labels(), request_buckets())),
        prefill_(families.prefill.Add(labels(), request_buckets())),
        decode_(families.decode.Add(labels(), request_buckets())),
        bubble_(families.bubble.Add(labels())) {
    // There from the start: a rate needs a value before the first event.
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      const auto reason = std::string(to_string(static_cast<FinishedReason>(i)));
      ends_[i] = &families.ends.Add({{"model", name_}, {"finished_reason", reason}});
    }
  }

  void set_requests(std::size_t running, std::size_t waiting) override {
    running_.Set(static_cast<double>(running));
    waiting_.Set(static_cast<double>(waiting));
  }
  void set_kv_cache_use(double share) override { kv_use_.Set(share); }
  void add_prefix_cache(std::uint64_t queried, std::uint64_t hit) override {
    prefix_queries_.Increment(static_cast<double>(queried));
    prefix_hits_.Increment(static_cast<double>(hit));
  }
  void add_prompt_tokens(std::uint64_t count) override {
    prompt_tokens_.Increment(static_cast<double>(count));
  }
  void add_generation_tokens(std::uint64_t count) override {
    generation_tokens_.Increment(static_cast<double>(count));
  }
  void observe_first_token(Duration since_arrival) override {
    first_token_.Observe(to_seconds(since_arrival));
  }
  void observe_next_token(Duration since_last) override {
    next_token_.Observe(to_seconds(since_last));
  }
  void observe_request(const RequestTimes& times, FinishedReason reason) override {
    whole_.Observe(to_seconds(times.whole));
    queue_.Observe(to_seconds(times.queue));
    prefill_.Observe(to_seconds(times.prefill));
    decode_.Observe(to_seconds(times.decode));
    ends_[static_cast<std::size_t>(reason)]->Increment();
  }

  void observe_stage(std::uint32_t stage, StepPhase phase, Duration compute) override {
    families_.stage_compute
        .Add({{"model", name_},
              {"stage", std::to_string(stage)},
              {"phase", std::string(to_string(phase))}},
             compute_buckets())
        .Observe(to_seconds(compute));
  }
  void observe_stage_queue(std::uint32_t stage, Duration wait) override {
    families_.stage_queue.Add(stage_labels(stage), compute_buckets()).Observe(to_seconds(wait));
  }
  void add_stage_time(std::uint32_t stage, double busy_s, double whole_s) override {
    families_.stage_busy.Add(stage_labels(stage)).Increment(busy_s);
    families_.stage_time.Add(stage_labels(stage)).Increment(whole_s);
  }
  void add_hop_bytes(std::string_view from, std::string_view to, std::uint64_t bytes) override {
    families_.hop_bytes
        .Add({{"model", name_}, {"from", std::string(from)}, {"to", std::string(to)}})
        .Increment(static_cast<double>(bytes));
  }
  void set_bubble_ratio(double share) override { bubble_.Set(share); }

 private:
  prometheus::Labels labels() const { return {{"model", name_}}; }
  prometheus::Labels stage_labels(std::uint32_t stage) const {
    return {{"model", name_}, {"stage", std::to_string(stage)}};
  }

  ModelFamilies& families_;
  const std::string name_;
  Gauge& running_;
  Gauge& waiting_;
  Gauge& kv_use_;
  Counter& prefix_queries_;
  Counter& prefix_hits_;
  Counter& prompt_tokens_;
  Counter& generation_tokens_;
  Histogram& first_token_;
  Histogram& next_token_;
  Histogram& whole_;
  Histogram& queue_;
  Histogram& prefill_;
  Histogram& decode_;
  Gauge& bubble_;
  std::array<Counter*, 5> ends_{};
};

std::string method_label(std::string_view method) {
  constexpr std::array<std::string_view, 7> kKnown = {"GET",    "HEAD",    "POST", "PUT",
                                                      "DELETE", "OPTIONS", "PATCH"};
  const bool is_known = std::find(kKnown.begin(), kKnown.end(), method) != kKnown.end();
  return is_known ? std::string(method) : "other";
}

}  // namespace

std::string_view to_string(FinishedReason reason) {
  switch (reason) {
    case FinishedReason::kStop:
      return "stop";
    case FinishedReason::kLength:
      return "length";
    case FinishedReason::kToolCalls:
      return "tool_calls";
    case FinishedReason::kAbort:
      return "abort";
    case FinishedReason::kError:
      return "error";
  }
  return "error";
}

std::string_view to_string(StepPhase phase) {
  return phase == StepPhase::kPrefill ? "prefill" : "decode";
}

struct Metrics::Impl {
  prometheus::Registry registry;
  ModelFamilies families{registry};
  Family<Counter>& http_requests =
      counter(registry, "http_requests_total", "HTTP requests by route and status.");
  Family<Histogram>& http_durations =
      histogram(registry, "http_request_duration_seconds",
                "From a request's first byte to the last of its answer.");
  Gauge& http_connections = gauge(registry, "http_connections", "Open HTTP connections.").Add({});
  Gauge& http_open =
      gauge(registry, "http_requests_in_flight", "Requests being read or answered.").Add({});
  Gauge& http_streams = gauge(registry, "http_streams", "Streams being answered.").Add({});
  Counter& spans_exported =
      counter(registry, "trace_spans_exported_total", "Spans that the receiver took.").Add({});
  Counter& spans_dropped =
      counter(registry, "trace_spans_dropped_total", "Spans without room, or refused.").Add({});
  Family<Gauge>& node_up = gauge(registry, "node_up", "1 where the node answers, else 0.");

  std::mutex mutex;
  std::map<std::string, std::unique_ptr<ModelMetrics>> models;
  std::map<std::string, Gauge*> nodes;
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

ModelMetrics& Metrics::model(const std::string& name) {
  const std::lock_guard lock(impl_->mutex);
  auto& metrics = impl_->models[name];
  if (!metrics) metrics = std::make_unique<BoundModelMetrics>(impl_->families, name);
  return *metrics;
}

void Metrics::count_http(std::string_view method, std::string_view route, int status,
                         Duration duration) {
  const std::string route_label(route.empty() ? "other" : route);
  impl_->http_requests
      .Add({{"method", method_label(method)},
            {"route", route_label},
            {"status", status == 0 ? "none" : std::to_string(status)}})
      .Increment();
  impl_->http_durations.Add({{"route", route_label}}, first_token_buckets())
      .Observe(to_seconds(duration));
}

void Metrics::set_http_open(std::size_t connections, std::size_t requests, std::size_t streams) {
  impl_->http_connections.Set(static_cast<double>(connections));
  impl_->http_open.Set(static_cast<double>(requests));
  impl_->http_streams.Set(static_cast<double>(streams));
}

void Metrics::set_nodes(const std::map<std::string, bool>& nodes) {
  const std::lock_guard lock(impl_->mutex);
  std::erase_if(impl_->nodes, [&](const auto& known) {
    if (nodes.contains(known.first)) return false;
    impl_->node_up.Remove(known.second);
    return true;
  });
  for (const auto& [node, is_up] : nodes) {
    Gauge*& shown = impl_->nodes[node];
    if (shown == nullptr) shown = &impl_->node_up.Add({{"node", node}});
    shown->Set(is_up ? 1 : 0);
  }
}

void Metrics::count_spans(std::size_t exported, std::size_t dropped) {
  impl_->spans_exported.Increment(static_cast<double>(exported));
  impl_->spans_dropped.Increment(static_cast<double>(dropped));
}

std::string Metrics::text() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace paceline::obs
