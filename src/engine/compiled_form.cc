#include "engine/compiled_form.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <openvino/runtime/properties.hpp>

#include "cut/cut.h"
#include "cut/openvino_error.h"
#include "engine/device_properties.h"
#include "engine/devices.h"
#include "engine/stage_graph.h"
#include "engine/stateful_graph.h"

namespace paceline::engine {
namespace {

constexpr char kStatefulEngine[] = "stateful";
constexpr std::size_t kMaxNameBytes = 256;

shard::FormIdentity identity_of(ov::Core& core, const FormOptions& options,
                                const ov::AnyMap& properties) {
  shard::FormIdentity identity;
  identity.package_digest = options.package_digest;
  identity.layers = options.layers;
  identity.device = options.device;
  identity.engine = kStatefulEngine;
  identity.profile = options.profile;
  identity.device_name =
      core.get_property(options.device, ov::device::full_name).substr(0, kMaxNameBytes);
  identity.isa = cpu_isa();
  identity.openvino_version = openvino_version();
  for (const auto& [name, value] : properties) {
    identity.properties.emplace(name, value.as<std::string>());
  }
  return identity;
}

/// A last stage that was stored before they were an output of it.
bool is_without_final_rows(const ov::CompiledModel& model) {
  const auto has = [](const auto& output, const char* name) {
    return output.get_names().contains(name);
  };
  if (has(model.output(0), cut::kBoundaryOutput)) return false;
  const auto& outputs = model.outputs();
  return std::none_of(outputs.begin(), outputs.end(),
                      [&](const auto& output) { return has(output, kFinalRowsOutput); });
}

/// One load: tries the cache, compiles where that gives nothing, stores what was compiled.
class Loader {
 public:
  Loader(ov::Core& core, const FormOptions& options, const shard::FormCache* cache)
      : core_(core), options_(options), cache_(cache) {}

  Result<CompiledForm> load() {
    const TimePoint begin = clock_.now();
    if (cache_ == nullptr) {
      form_.reason = "no cache is used";
    } else if (try_import()) {
      form_.load_time = clock_.now() - begin;
      return std::move(form_);
    }
    PACELINE_RETURN_IF_ERROR(compile());
    form_.load_time = clock_.now() - begin;
    if (cache_ != nullptr && options_.stores) store();
    return std::move(form_);
  }

 private:
  bool try_import() {
    shard::FormIdentity wanted = identity_of(core_, options_, {});
    const auto found = cache_->find(wanted);
    if (!found) {
      const bool is_damaged = found.error().code() != ErrorCode::kNotFound;
      form_.reason = is_damaged ? "the form is damaged" : "the cache has no form of it";
      if (is_damaged) form_.warning = found.error().message();
      return false;
    }
    const shard::FormHeader& header = (*found)->header();
    const ov::AnyMap properties = form_properties(core_, options_, header.weight_group);
    wanted = identity_of(core_, options_, properties);
    form_.reason = shard::form_difference(header.identity, wanted);
    if (!form_.reason.empty()) return false;
    if (const Status whole = (*found)->verify(); !whole) {
      form_.reason = "the form is damaged";
      form_.warning = whole.error().message();
      return false;
    }
    const auto blob = (*found)->blob();
    auto imported = cut::catch_openvino(cache_->path_of(wanted).string(), [&] {
      // A tensor takes a pointer to write through; the plugin reads only.
      const ov::Tensor tensor(ov::element::u8, ov::Shape{blob.size()},
                              const_cast<std::byte*>(blob.data()));  // NOLINT
      return core_.import_model(tensor, options_.device, properties);
    });
    if (!imported) {
      form_.reason = "the device refuses the form";
      form_.warning = imported.error().message();
      return false;
    }
    if (is_without_final_rows(*imported)) {
      form_.reason = "the form is of an older version: it gives no final rows";
      return false;
    }
    form_.model = *std::move(imported);
    form_.keep_alive = *found;
    form_.is_imported = true;
    form_.weight_bytes = header.weight_bytes;
    form_.embedding_rows = header.embedding_rows;
    form_.rewinds_by_mask = header.rewinds_by_mask;
    form_.compile_time = std::chrono::microseconds(header.compile_us);
    form_.form_bytes = blob.size() + shard::kFormTrailerBytes;
    cache_->touch(wanted);
    return true;
  }

  Status compile() {
    const TimePoint begin = clock_.now();
    if (options_.before_reading) PACELINE_RETURN_IF_ERROR(options_.before_reading());
    PACELINE_ASSIGN_OR_RETURN(const auto stage, read_stage(core_, options_, options_.layers));
    header_.weight_group = weight_group_size(*stage);
    header_.weight_bytes = form_.weight_bytes = constant_bytes(*stage);
    header_.embedding_rows = form_.embedding_rows = embedding_rows(*stage);
    header_.rewinds_by_mask = form_.rewinds_by_mask = rewinds_by_mask(*stage);
    PACELINE_RETURN_IF_ERROR(make_stateful(stage, inference_precision(core_, options_.profile)));
    const ov::AnyMap properties = form_properties(core_, options_, header_.weight_group);
    PACELINE_ASSIGN_OR_RETURN(form_.model, cut::catch_openvino("compiling the stage", [&] {
                                return core_.compile_model(stage, options_.device, properties);
                              }));
    header_.identity = identity_of(core_, options_, properties);
    form_.compile_time = clock_.now() - begin;
    header_.compile_us = to_whole_microseconds(form_.compile_time);
    return {};
  }

  void store() {
    const auto stored = cache_->store(header_, [this](std::ostream& stream) -> Status {
      return cut::catch_openvino("exporting the stage", [&] { form_.model.export_model(stream); });
    });
    form_.is_stored = stored.has_value();
    if (!stored) {
      form_.warning += (form_.warning.empty() ? "" : "; ") + stored.error().message();
    } else if (const auto now = cache_->find(header_.identity)) {
      form_.form_bytes = (*now)->blob().size() + shard::kFormTrailerBytes;
    }
  }

  ov::Core& core_;
  const FormOptions& options_;
  const shard::FormCache* cache_;
  const SteadyClock clock_;
  CompiledForm form_;
  shard::FormHeader header_;
};

}  // namespace

ov::AnyMap form_properties(ov::Core& core, const FormOptions& options, std::uint64_t weight_group) {
  if (options.device == "CPU") {
    return cpu_properties(core, options.profile, options.threads, weight_group);
  }
  const bool exact = options.profile == Profile::kExact;
  ov::AnyMap properties = {ov::num_streams(1),
                           ov::hint::performance_mode(ov::hint::PerformanceMode::LATENCY),
                           ov::hint::execution_mode(exact ? ov::hint::ExecutionMode::ACCURACY
                                                          : ov::hint::ExecutionMode::PERFORMANCE)};
  if (exact) properties.insert(ov::hint::inference_precision(ov::element::f32));
  return properties;
}

Result<std::shared_ptr<ov::Model>> read_stage(ov::Core& core, const FormOptions& options,
                                              LayerRange layers) {
  const auto path = options.package / "openvino_model.xml";
  PACELINE_ASSIGN_OR_RETURN(auto model, cut::catch_openvino(path.string(), [&] {
                              return std::shared_ptr<const ov::Model>(core.read_model(
                                  path.string(), std::string(), {ov::enable_mmap(true)}));
                            }));
  PACELINE_ASSIGN_OR_RETURN(const auto analysis, cut::DecoderAnalysis::analyse(std::move(model)));
  return analysis.cut(layers);
}

Result<CompiledForm> load_compiled_form(ov::Core& core, const FormOptions& options,
                                        const shard::FormCache* cache) {
  return cut::catch_openvino(options.device, [&] { return Loader(core, options, cache).load(); });
}

}  // namespace paceline::engine
