#include "engine/precompile.h"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include <openvino/runtime/core.hpp>
#include <openvino/runtime/properties.hpp>

#include "cut/openvino_error.h"
#include "engine/compiled_form.h"
#include "engine/device_properties.h"
#include "engine/paged_graph.h"

namespace paceline::engine {
namespace {

Status check_device(ov::Core& core, const std::string& device) {
  return cut::catch_openvino(device, [&]() -> Status {
    const std::vector<std::string> devices = core.get_available_devices();
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) {
      std::string list;
      for (const std::string& one : devices) list += (list.empty() ? "" : ", ") + one;
      return fail(ErrorCode::kNotFound, "--device: OpenVINO finds no {}; it finds {}", device,
                  list.empty() ? "none" : list);
    }
    const auto capabilities = core.get_property(device, ov::device::capabilities);
    if (std::find(capabilities.begin(), capabilities.end(),
                  ov::device::capability::EXPORT_IMPORT) != capabilities.end()) {
      return {};
    }
    return fail(ErrorCode::kUnimplemented, "{}: its plugin cannot export and import models",
                device);
  });
}

}  // namespace

Result<PrecompileReport> precompile(const FormOptions& options, const shard::FormCache& cache) {
  ov::Core core;
  PACELINE_RETURN_IF_ERROR(check_device(core, options.device));
  PrecompileReport report;
  {
    PACELINE_ASSIGN_OR_RETURN(const auto first, load_compiled_form(core, options, &cache));
    if (!first.is_imported && !first.is_stored) {
      return fail(ErrorCode::kUnavailable, "{}: the form cannot be stored: {}",
                  cache.directory().string(), first.warning);
    }
    report.was_there = first.is_imported;
    report.reason = first.reason;
    report.warning = first.warning;
    report.without_cache = first.compile_time;
  }
  PACELINE_ASSIGN_OR_RETURN(const auto second, load_compiled_form(core, options, &cache));
  if (!second.is_imported) {
    return fail(ErrorCode::kUnavailable, "{}: the form was stored, but is not taken back: {}{}{}",
                cache.directory().string(), second.reason, second.warning.empty() ? "" : ": ",
                second.warning);
  }
  report.with_cache = second.load_time;
  report.form_bytes = second.form_bytes;
  return report;
}

Result<std::string> why_paged_is_not_imported(const FormOptions& options) {
  ov::Core core;
  PACELINE_RETURN_IF_ERROR(check_device(core, options.device));
  if (options.before_reading) PACELINE_RETURN_IF_ERROR(options.before_reading());
  // Neither the embedding nor the head, where there is a choice: they take memory for nothing.
  const std::uint32_t layer = options.layers.begin + (options.layers.size() > 1 ? 1 : 0);
  PACELINE_ASSIGN_OR_RETURN(const auto stage, read_stage(core, options, {layer, layer + 1}));
  const ov::AnyMap properties = form_properties(core, options, weight_group_size(*stage));
  PACELINE_RETURN_IF_ERROR(make_paged(stage, inference_precision(core, options.profile)));
  std::stringstream blob;
  PACELINE_RETURN_IF_ERROR(cut::catch_openvino("compiling the paged stage", [&] {
    core.compile_model(stage, options.device, properties).export_model(blob);
  }));
  const auto imported = cut::catch_openvino(
      options.device, [&] { (void)core.import_model(blob, options.device, properties); });
  return imported ? std::string() : imported.error().message();
}

}  // namespace paceline::engine
