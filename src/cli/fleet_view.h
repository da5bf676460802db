// What a server says of its models: for ps and top. Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "obs/metrics_text.h"

namespace paceline::cli {

struct ModelView {
  std::string name;
  std::string status;                ///< empty: the server does not say
  std::uint64_t context_tokens = 0;  ///< 0: the server does not say
  std::uint64_t stages = 0;          ///< 0: the server does not say
  double running = 0;
  double waiting = 0;
  double kv_use = 0;  ///< 0 to 1
  double prompt_tokens = 0;
  double generation_tokens = 0;
  double first_token_seconds = 0;               ///< of all answers together
  double first_tokens = 0;                      ///< how many these were
  std::map<std::string, double> stage_seconds;  ///< computed, by the stage's number
};

struct FleetView {
  std::string url;
  bool is_healthy = false;
  std::string version;  ///< empty: the server does not say
  std::vector<ModelView> models;
};

/// `models`: the body of GET /v1/models, of any server. Metrics as `paceline serve` has them; of
/// others there are none.
std::vector<ModelView> model_views(const nlohmann::ordered_json& models,
                                   const obs::MetricsText& metrics);

/// What became of a model in a time.
struct ModelRates {
  double tokens_per_second = 0;
  double prompt_tokens_per_second = 0;
  double first_token_ms = 0;                ///< mean of those that came; 0: none did
  std::map<std::string, double> stage_use;  ///< 0 to 1
};
/// A counter that went back (the model was loaded anew) counts from 0.
ModelRates rates_of(const ModelView& before, const ModelView& after, double seconds);

nlohmann::ordered_json to_json(const ModelView& model);
nlohmann::ordered_json to_json(const FleetView& fleet);
nlohmann::ordered_json to_json(const ModelRates& rates);

/// The table of ps, each line with its end.
std::string fleet_table(const FleetView& fleet);

/// The screen of top: lines of at most `width` columns, by names of models.
std::string fleet_screen(const FleetView& fleet, const std::map<std::string, ModelRates>& rates,
                         std::size_t width);

}  // namespace paceline::cli
