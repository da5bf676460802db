// The spans of one HTTP request that reached a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/generation.h"
#include "http/exchange.h"
#include "obs/span_exporter.h"

namespace paceline::serve {

/// A span for the request, and in it three for each answer: queue, prefill, decode. In the trace
/// that the client's traceparent names, else in a new one; nothing where that says that it is not
/// sampled. Given away by the destructor. Thread-compatible.
class RequestTrace {
 public:
  /// `exporter`: nullptr for none; must outlive it.
  RequestTrace(obs::SpanExporter* exporter, const http::Request& request, std::string model);
  ~RequestTrace();
  RequestTrace(const RequestTrace&) = delete;
  RequestTrace& operator=(const RequestTrace&) = delete;

  /// `is_first`: of the answers to its prompt, whose tokens count once.
  void add_answer(const coordinator::Generation& generation, bool is_first);
  /// What the client was told, or would have been.
  void fail(int status);

 private:
  void add_part(const char* name, std::int64_t begin_ns, std::int64_t end_ns);

  obs::SpanExporter* exporter_;
  obs::Span whole_;
  std::vector<obs::Span> parts_;
  std::size_t answers_ = 0;
  std::int64_t prompt_tokens_ = 0;
  std::int64_t reused_tokens_ = 0;
  std::int64_t generated_tokens_ = 0;
  bool is_cancelled_ = false;
};

}  // namespace paceline::serve
