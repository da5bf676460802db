#include "serve/stage_view.h"

#include "base/engine_kind.h"

namespace paceline::serve {

std::vector<StageView> stage_views(std::span<const coordinator::StageReport> stages,
                                   const std::map<std::string, coordinator::WorkerState>& workers) {
  std::vector<StageView> views;
  for (const coordinator::StageReport& stage : stages) {
    StageView view;
    view.layers = stage.ready.layers;
    view.worker = stage.worker_name;
    view.address = stage.entry.address;
    view.engine = to_string(stage.ready.engine);
    view.weight_bytes = stage.ready.weight_bytes;
    view.kv_bytes = stage.ready.kv_bytes;
    view.resident_bytes = stage.ready.resident_bytes;
    const auto found = workers.find(stage.entry.address);
    if (found != workers.end()) {
      const coordinator::WorkerState& worker = found->second;
      view.isa = worker.welcome.isa;
      view.threads = worker.welcome.threads;
      view.machine_bytes = worker.welcome.total_bytes;
      view.round_trip = worker.round_trip;
      if (worker.pong) {
        view.resident_bytes = worker.pong->resident_bytes;
        view.queued_steps = worker.pong->queued_steps;
      }
    }
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace paceline::serve
