#include "engine/device_properties.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <openvino/op/constant.hpp>
#include <openvino/runtime/properties.hpp>

namespace paceline::engine {
namespace {

/// Used where weights are not grouped (one scale per channel, or none).
constexpr std::uint64_t kDefaultDynamicQuantizationGroup = 128;

bool is_integer_weight(const ov::element::Type& type) {
  return type == ov::element::u4 || type == ov::element::i4 || type == ov::element::u8 ||
         type == ov::element::i8;
}

}  // namespace

ov::element::Type inference_precision(ov::Core& core, Profile profile) {
  if (profile == Profile::kExact) return ov::element::f32;
  const auto capabilities = core.get_property("CPU", ov::device::capabilities);
  const bool has_bf16 = std::find(capabilities.begin(), capabilities.end(),
                                  ov::device::capability::BF16) != capabilities.end();
  return has_bf16 ? ov::element::bf16 : ov::element::f32;
}

std::uint64_t weight_group_size(const ov::Model& model) {
  std::map<std::uint64_t, std::uint64_t> bytes_by_group;
  for (const auto& node : model.get_ops()) {
    const auto constant = ov::as_type_ptr<ov::op::v0::Constant>(node);
    if (!constant || !is_integer_weight(constant->get_element_type())) continue;
    const ov::Shape& shape = constant->get_shape();
    // [rows, groups, group], of experts [E, rows, groups, group].
    if (shape.size() < 3 || shape.back() <= 1) continue;
    bytes_by_group[shape.back()] += constant->get_byte_size();
  }
  const auto most = std::max_element(
      bytes_by_group.begin(), bytes_by_group.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  return most == bytes_by_group.end() ? 0 : most->first;
}

ov::AnyMap cpu_properties(ov::Core& core, Profile profile, std::uint32_t threads,
                          std::uint64_t weight_group) {
  const bool exact = profile == Profile::kExact;
  const std::uint64_t fast_group =
      weight_group == 0 ? kDefaultDynamicQuantizationGroup : weight_group;
  const ov::element::Type kv_type = exact ? ov::element::f32 : ov::element::u8;
  ov::AnyMap properties = {
      ov::num_streams(1),
      ov::hint::inference_precision(inference_precision(core, profile)),
      ov::hint::execution_mode(exact ? ov::hint::ExecutionMode::ACCURACY
                                     : ov::hint::ExecutionMode::PERFORMANCE),
      ov::hint::dynamic_quantization_group_size(exact ? 0 : fast_group),
      ov::hint::kv_cache_precision(kv_type),
      ov::key_cache_precision(kv_type),
      ov::value_cache_precision(kv_type),
      // Several stages on one machine would all be pinned to its first cores.
      ov::hint::enable_cpu_pinning(false),
  };
  // By channel, the plugin's default, a rewind over a quantized key cache would not be exact.
  if (!exact) properties["KEY_CACHE_QUANT_MODE"] = std::string("BY_TOKEN");
  if (threads > 0) properties.insert(ov::inference_num_threads(static_cast<int>(threads)));
  return properties;
}

}  // namespace paceline::engine
