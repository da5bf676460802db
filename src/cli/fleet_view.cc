#include "cli/fleet_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "cli/server_client.h"

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxModels = 1000;
constexpr std::size_t kBarWidth = 20;

/// What comes from a server may be no number, or one that no table has room for.
double sane(double value) { return std::isfinite(value) ? std::clamp(value, 0.0, 1e15) : 0; }

std::uint64_t count_of(const ordered_json& model, const char* name) {
  const auto found = model.find(name);
  const bool is_count = found != model.end() && found->is_number_unsigned();
  return is_count ? found->get<std::uint64_t>() : 0;
}

ModelView view_of(const ordered_json& model, const obs::MetricsText& metrics) {
  ModelView view;
  view.name = text_of(model, "id");
  view.status = printable(text_of(model, "status"), 32);
  view.context_tokens = count_of(model, "max_model_len");
  view.stages = count_of(model, "stages");
  const std::map<std::string, std::string> labels = {{"model", view.name}};
  const auto sum = [&](const char* name, const std::map<std::string, std::string>& of) {
    return sane(metrics.sum(std::string("paceline_") + name, of));
  };
  view.running = sum("num_requests_running", labels);
  view.waiting = sum("num_requests_waiting", labels);
  view.kv_use = std::min(1.0, sum("kv_cache_usage_perc", labels));
  view.prompt_tokens = sum("prompt_tokens_total", labels);
  view.generation_tokens = sum("generation_tokens_total", labels);
  view.first_token_seconds = sum("time_to_first_token_seconds_sum", labels);
  view.first_tokens = sum("time_to_first_token_seconds_count", labels);
  constexpr const char* kCompute = "stage_compute_seconds_sum";
  for (const auto& stage :
       metrics.values_of("stage", std::string("paceline_") + kCompute, labels)) {
    auto of_stage = labels;
    of_stage["stage"] = stage;
    view.stage_seconds[printable(stage, 16)] = sum(kCompute, of_stage);
  }
  return view;
}

double increase(double before, double after) { return after >= before ? after - before : after; }

std::string status_of(const ModelView& model) { return model.status.empty() ? "-" : model.status; }

std::string bar(double share) {
  const auto full = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBarWidth));
  return "[" + std::string(full, '#') + std::string(kBarWidth - full, '.') + "]";
}

/// Columns, not bytes, as far as a terminal's widths follow from UTF-8: a byte that goes on is
/// none.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string cut(std::string text, std::size_t width) {
  while (columns_of(text) > width) text.pop_back();
  return text;
}

}  // namespace

std::vector<ModelView> model_views(const ordered_json& models, const obs::MetricsText& metrics) {
  std::vector<ModelView> views;
  if (!models.is_object()) return views;
  const auto data = models.find("data");
  if (data == models.end() || !data->is_array()) return views;
  for (const ordered_json& model : *data) {
    if (text_of(model, "id").empty() || views.size() >= kMaxModels) continue;
    views.push_back(view_of(model, metrics));
  }
  return views;
}

ModelRates rates_of(const ModelView& before, const ModelView& after, double seconds) {
  ModelRates rates;
  if (seconds <= 0) return rates;
  rates.tokens_per_second = increase(before.generation_tokens, after.generation_tokens) / seconds;
  rates.prompt_tokens_per_second = increase(before.prompt_tokens, after.prompt_tokens) / seconds;
  const double came = increase(before.first_tokens, after.first_tokens);
  if (came > 0) {
    rates.first_token_ms =
        1000 * increase(before.first_token_seconds, after.first_token_seconds) / came;
  }
  for (const auto& [stage, computed] : after.stage_seconds) {
    const auto earlier = before.stage_seconds.find(stage);
    const double since = earlier == before.stage_seconds.end() ? 0 : earlier->second;
    rates.stage_use[stage] = std::clamp(increase(since, computed) / seconds, 0.0, 1.0);
  }
  return rates;
}

ordered_json to_json(const ModelView& model) {
  ordered_json json = {{"name", model.name},
                       {"status", model.status},
                       {"context_tokens", model.context_tokens},
                       {"stages", model.stages},
                       {"running", model.running},
                       {"waiting", model.waiting},
                       {"kv_use", model.kv_use},
                       {"prompt_tokens", model.prompt_tokens},
                       {"generation_tokens", model.generation_tokens}};
  if (model.first_tokens > 0) {
    json["first_token_ms"] = 1000 * model.first_token_seconds / model.first_tokens;
  }
  return json;
}

ordered_json to_json(const FleetView& fleet) {
  ordered_json models = ordered_json::array();
  for (const ModelView& model : fleet.models) models.push_back(to_json(model));
  return {{"url", fleet.url},
          {"healthy", fleet.is_healthy},
          {"version", fleet.version},
          {"models", std::move(models)}};
}

ordered_json to_json(const ModelRates& rates) {
  return {{"tokens_per_second", rates.tokens_per_second},
          {"prompt_tokens_per_second", rates.prompt_tokens_per_second},
          {"first_token_ms", rates.first_token_ms},
          {"stage_use", rates.stage_use}};
}

std::string fleet_table(const FleetView& fleet) {
  std::size_t names = 5;
  for (const ModelView& model : fleet.models) {
    names = std::max(names, columns_of(printable(model.name, 64)));
  }
  const auto line = [names](const std::string& name, const std::array<std::string, 6>& rest) {
    return name + std::string(names - std::min(names, columns_of(name)), ' ') +
           fmt::format("  {:<9}  {:>7}  {:>6}  {:>7}  {:>7}  {:>4}\n", rest[0], rest[1], rest[2],
                       rest[3], rest[4], rest[5]);
  };
  std::string table = line("MODEL", {"STATE", "CONTEXT", "STAGES", "RUNNING", "WAITING", "KV"});
  for (const ModelView& model : fleet.models) {
    const auto or_dash = [](std::uint64_t count) {
      return count == 0 ? std::string("-") : fmt::format("{}", count);
    };
    table += line(printable(model.name, 64),
                  {status_of(model), or_dash(model.context_tokens), or_dash(model.stages),
                   fmt::format("{:.0f}", model.running), fmt::format("{:.0f}", model.waiting),
                   fmt::format("{:.0f}%", 100 * model.kv_use)});
  }
  return table;
}

std::string fleet_screen(const FleetView& fleet, const std::map<std::string, ModelRates>& rates,
                         std::size_t width) {
  std::vector<std::string> lines = {fmt::format("paceline {} at {}: {}", fleet.version, fleet.url,
                                                fleet.is_healthy ? "healthy" : "not ready")};
  for (const ModelView& model : fleet.models) {
    const auto found = rates.find(model.name);
    const ModelRates now = found == rates.end() ? ModelRates() : found->second;
    lines.emplace_back();
    lines.push_back(fmt::format("{} ({})", printable(model.name, 64), status_of(model)));
    if (!model.status.empty() && model.status != "ready") continue;
    lines.push_back(
        fmt::format("  {:.1f} tokens/s, prompts {:.1f} tokens/s, TTFT {}", now.tokens_per_second,
                    now.prompt_tokens_per_second,
                    now.first_token_ms > 0 ? fmt::format("{:.0f} ms", now.first_token_ms) : "-"));
    lines.push_back(fmt::format("  running {:.0f}, waiting {:.0f}", model.running, model.waiting));
    lines.push_back(fmt::format("  KV       {} {:>3.0f}%", bar(model.kv_use), 100 * model.kv_use));
    for (const auto& [stage, use] : now.stage_use) {
      lines.push_back(fmt::format("  stage {:<2} {} {:>3.0f}%", stage, bar(use), 100 * use));
    }
  }
  std::string screen;
  for (std::string& line : lines) screen += cut(std::move(line), width) + "\n";
  return screen;
}

}  // namespace paceline::cli
