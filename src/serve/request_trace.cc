#include "serve/request_trace.h"

#include <chrono>
#include <utility>

#include "system/wall_clock.h"

namespace paceline::serve {
namespace {

/// A request may have a thousand; a trace is to be read.
constexpr std::size_t kShownAnswers = 16;

std::int64_t nanoseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

}  // namespace

RequestTrace::RequestTrace(obs::SpanExporter* exporter, const http::Request& request,
                           std::string model)
    : exporter_(exporter) {
  if (exporter_ == nullptr) return;
  const auto given = request.headers.find("traceparent");
  const auto parent =
      given == request.headers.end() ? std::nullopt : obs::parse_traceparent(given->second);
  if (parent && !parent->is_sampled) {
    exporter_ = nullptr;
    return;
  }
  whole_.context = parent ? obs::child_of(*parent) : obs::new_trace(true);
  if (parent) whole_.parent = parent->parent_id;
  whole_.name = request.method + " " + request.path;
  whole_.kind = obs::SpanKind::kServer;
  whole_.begin_ns = system::unix_nanoseconds();
  whole_.end_ns = whole_.begin_ns;
  whole_.attributes = {{"http.request.method", request.method},
                       {"http.route", request.path},
                       {"paceline.request_id", request.id},
                       {"gen_ai.request.model", std::move(model)}};
}

RequestTrace::~RequestTrace() {
  if (exporter_ == nullptr) return;
  whole_.attributes.push_back({"gen_ai.usage.input_tokens", prompt_tokens_});
  whole_.attributes.push_back({"gen_ai.usage.output_tokens", generated_tokens_});
  whole_.attributes.push_back({"paceline.reused_tokens", reused_tokens_});
  whole_.attributes.push_back({"paceline.cancelled", is_cancelled_});
  parts_.push_back(std::move(whole_));
  exporter_->add(std::move(parts_));
}

void RequestTrace::add_part(const char* name, std::int64_t begin_ns, std::int64_t end_ns) {
  obs::Span part;
  part.context = obs::child_of(whole_.context);
  part.parent = whole_.context.parent_id;
  part.name = name;
  part.begin_ns = begin_ns;
  part.end_ns = end_ns;
  part.attributes = {{"paceline.answer", static_cast<std::int64_t>(answers_)}};
  parts_.push_back(std::move(part));
}

void RequestTrace::add_answer(const coordinator::Generation& generation, bool is_first) {
  if (exporter_ == nullptr) return;
  whole_.end_ns = system::unix_nanoseconds();
  if (is_first) {
    prompt_tokens_ += generation.prompt_tokens;
    reused_tokens_ += generation.reused_tokens;
  }
  generated_tokens_ += static_cast<std::int64_t>(generation.tokens.size());
  is_cancelled_ =
      is_cancelled_ || generation.finish_reason == coordinator::FinishReason::kCancelled;
  if (answers_ < kShownAnswers && !generation.tokens.empty()) {
    const std::int64_t planned = whole_.begin_ns + nanoseconds(generation.queue_time);
    const std::int64_t first = whole_.begin_ns + nanoseconds(generation.time_to_first_token);
    add_part("queue", whole_.begin_ns, planned);
    add_part("prefill", planned, first);
    add_part("decode", first, first + nanoseconds(generation.decode_time));
  }
  ++answers_;
}

void RequestTrace::fail(int status) {
  if (exporter_ == nullptr) return;
  whole_.end_ns = system::unix_nanoseconds();
  whole_.has_failed = true;
  whole_.attributes.push_back({"http.response.status_code", std::int64_t{status}});
}

}  // namespace paceline::serve
