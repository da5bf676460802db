#include "serve/fleet_monitor.h"

#include <charconv>
#include <condition_variable>
#include <optional>
#include <set>
#include <utility>

#include "api/api_error.h"
#include "api/responses.h"
#include "base/version.h"
#include "serve/reply.h"
#include "system/wall_clock.h"

namespace paceline::serve {
namespace {

using api::Json;

Json optional_ms(const std::optional<Duration>& duration) {
  return duration ? Json(to_milliseconds(*duration)) : Json();
}

Json stage_json(const StageView& stage) {
  return {{"layers", {stage.layers.begin, stage.layers.end}},
          {"worker", stage.worker},
          {"address", stage.address},
          {"device", "CPU"},
          {"isa", stage.isa},
          {"threads", stage.threads},
          {"engine", stage.engine},
          {"weight_bytes", stage.weight_bytes},
          {"kv_bytes", stage.kv_bytes},
          {"resident_bytes", stage.resident_bytes},
          {"machine_bytes", stage.machine_bytes},
          {"queued_steps", stage.queued_steps},
          {"round_trip_ms", optional_ms(stage.round_trip)}};
}

Json request_json(const obs::RequestRecord& record) {
  Json json = {{"number", record.number},
               {"id", record.id},
               {"route", record.route},
               {"model", record.model},
               {"tenant", record.tenant},
               {"time", record.unix_seconds},
               {"prompt_tokens", record.prompt_tokens},
               {"reused_tokens", record.reused_tokens},
               {"generated_tokens", record.generated_tokens},
               {"queue_ms", to_milliseconds(record.queue)},
               {"first_token_ms", optional_ms(record.first_token)},
               {"whole_ms", to_milliseconds(record.whole)},
               {"end", record.end}};
  if (record.status != 0) json["status"] = record.status;
  return json;
}

/// 0 where it is not there.
api::Parsed<std::uint64_t> number_of(const http::Request& request, const std::string& name) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return 0;
  const std::string& text = found->second;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return tl::unexpected(api::invalid_field(name, "expected a number of 0 or more"));
  }
  return number;
}

FleetSample sample_of(ServedModel& model, const ModelLoad& before, const ModelLoad& now) {
  FleetSample sample;
  const obs::Activity::Interval seen = model.activity().take();
  const double elapsed = to_seconds(now.at - before.at);
  if (elapsed > 0) {
    sample.tokens_per_s = static_cast<double>(seen.generation_tokens) / elapsed;
    sample.prompt_tokens_per_s = static_cast<double>(seen.prompt_tokens) / elapsed;
  }
  sample.running = now.scheduler.running;
  sample.waiting = now.scheduler.waiting;
  sample.kv_use = kv_use(now, model.facts());
  sample.first_token = seen.first_token;
  sample.next_token = seen.next_token;
  sample.stage_use = stage_use(before, now);
  return sample;
}

}  // namespace

FleetMonitor::FleetMonitor(const ModelRegistry& registry, const obs::RequestLog& log,
                           const Clock& clock, const Options& options)
    : registry_(registry),
      log_(log),
      clock_(clock),
      options_(options),
      started_at_(system::unix_seconds()) {}

void FleetMonitor::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      sample();
      never.wait_for(lock, stop, options_.interval, [] { return false; });
    }
  });
}

/// With the mutex held.
FleetMonitor::Seen& FleetMonitor::seen_of(const ModelRegistry::Listed& listed) {
  const auto [entry, is_new] = seen_.try_emplace(listed.names.front(), options_.kept_samples);
  Seen& seen = entry->second;
  if (seen.model.lock() == listed.model) return seen;
  // The first look, or another model by this name: its counts begin now.
  seen.model = listed.model;
  seen.load = listed.model->load();
  (void)listed.model->activity().take();
  return seen;
}

/// With the mutex held.
void FleetMonitor::forget_others(const std::vector<ModelRegistry::Listed>& listed) {
  std::set<std::string> known;
  for (const auto& one : listed) known.insert(one.names.front());
  std::erase_if(seen_, [&known](const auto& entry) { return !known.contains(entry.first); });
}

void FleetMonitor::sample() {
  const auto listed = registry_.listed();
  const std::lock_guard lock(mutex_);
  ++last_number_;
  forget_others(listed);
  for (const ModelRegistry::Listed& one : listed) {
    if (!one.model) continue;
    Seen& seen = seen_of(one);
    const ModelLoad now = one.model->load();
    FleetSample sample = sample_of(*one.model, std::exchange(seen.load, now), now);
    sample.number = last_number_;
    sample.unix_seconds = system::unix_seconds();
    seen.samples.add(std::move(sample));
  }
}

/// With the mutex held.
Json FleetMonitor::model_json(const ModelRegistry::Listed& listed, std::uint64_t after) {
  Json json = {
      {"id", listed.names.front()}, {"names", listed.names}, {"state", to_string(listed.state)}};
  if (!listed.model) return json;
  ServedModel& model = *listed.model;
  json["can_chat"] = model.chat() != nullptr;
  json["context_tokens"] = model.facts().context_tokens;
  json["kv_blocks"] = model.facts().kv_blocks;
  json["stages"] = Json::array();
  for (const StageView& stage : model.stages()) json["stages"].push_back(stage_json(stage));
  const auto seen = seen_.find(listed.names.front());
  if (seen == seen_.end()) return json;
  json["kv_free_blocks"] = seen->second.load.scheduler.available_blocks;
  json["kv_cached_blocks"] = seen->second.load.scheduler.cached_blocks;
  json["samples"] = seen->second.samples.columns_after(after);
  return json;
}

std::vector<http::Route> FleetMonitor::routes() {
  return {{"GET", "/fleet",
           [this](const std::shared_ptr<http::Exchange>& exchange) { show(*exchange); }}};
}

void FleetMonitor::show(http::Exchange& exchange) {
  const auto after_sample = number_of(exchange.request(), "sample");
  if (!after_sample) return respond(exchange, after_sample.error());
  const auto after_request = number_of(exchange.request(), "request");
  if (!after_request) return respond(exchange, after_request.error());
  Json json = {{"version", kVersion},           {"started_at", started_at_},
               {"now", system::unix_seconds()}, {"interval_s", to_seconds(options_.interval)},
               {"models", Json::array()},       {"requests", Json::array()}};
  const auto listed = registry_.listed();
  {
    const std::lock_guard lock(mutex_);
    json["last_sample"] = last_number_;
    for (const auto& one : listed) json["models"].push_back(model_json(one, *after_sample));
  }
  for (const auto& record : log_.after(*after_request)) {
    json["requests"].push_back(request_json(record));
  }
  respond(exchange, json);
}

}  // namespace paceline::serve
