// What an operator's Prometheus reads: counters, gauges and histograms under fixed names.
//
// Names end as vLLM's do, so that dashboards need only another prefix. prometheus-cpp's own HTTP
// server is not used: text() is served on the API's port, behind its keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace paceline::obs {

enum class FinishedReason { kStop, kLength, kToolCalls, kAbort, kError };
enum class StepPhase { kPrefill, kDecode };

std::string_view to_string(FinishedReason reason);
std::string_view to_string(StepPhase phase);

/// Parts of a request's time, from the monotonic clock of one process.
struct RequestTimes {
  Duration queue{};    ///< until its first step was planned
  Duration prefill{};  ///< from there to the first token
  Duration decode{};   ///< from the first token to the last
  Duration whole{};
};

/// Of one model, label `model`. Thread-safe, and cheap: no call looks up a label but those that say
/// from, to, stage or phase.
class ModelMetrics {
 public:
  virtual ~ModelMetrics() = default;

  virtual void set_requests(std::size_t running, std::size_t waiting) = 0;
  virtual void set_kv_cache_use(double share) = 0;  ///< 0 to 1
  /// Tokens of a prompt that were looked for in the prefix cache, and found there.
  virtual void add_prefix_cache(std::uint64_t queried, std::uint64_t hit) = 0;
  virtual void add_prompt_tokens(std::uint64_t count) = 0;
  virtual void add_generation_tokens(std::uint64_t count) = 0;
  virtual void observe_first_token(Duration since_arrival) = 0;
  virtual void observe_next_token(Duration since_last) = 0;
  virtual void observe_request(const RequestTimes& times, FinishedReason reason) = 0;

  virtual void observe_stage(std::uint32_t stage, StepPhase phase, Duration compute) = 0;
  /// How long a step waited in a stage for those before it.
  virtual void observe_stage_queue(std::uint32_t stage, Duration wait) = 0;
  /// Seconds since the last time: that it computed, and all of them.
  virtual void add_stage_time(std::uint32_t stage, double busy_s, double whole_s) = 0;
  virtual void add_hop_bytes(std::string_view from, std::string_view to, std::uint64_t bytes) = 0;
  /// Of the stages' time lately, the share in which they had nothing to compute while requests ran.
  virtual void set_bubble_ratio(double share) = 0;
};

/// Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// Of a model that is served (never a name that a client sent: each is kept for ever). Made by
  /// the first call; lives as long as this.
  ModelMetrics& model(const std::string& name);

  /// `route` is a pattern, empty where none fits; a method that HTTP does not define is "other".
  void count_http(std::string_view method, std::string_view route, int status, Duration duration);
  void set_http_open(std::size_t connections, std::size_t requests, std::size_t streams);
  /// All there are, and whether they answer; others are forgotten.
  void set_nodes(const std::map<std::string, bool>& nodes);
  /// Of traces: taken by the receiver, and lost.
  void count_spans(std::size_t exported, std::size_t dropped);

  /// Prometheus' text format, to be sent as kMetricsContentType.
  std::string text() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace paceline::obs
