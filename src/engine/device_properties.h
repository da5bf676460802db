// Explicit OpenVINO properties for each profile: nothing that decides a result is left to defaults.
#pragma once

#include <cstdint>

#include <openvino/core/any.hpp>
#include <openvino/core/model.hpp>
#include <openvino/core/type/element_type.hpp>
#include <openvino/runtime/core.hpp>

#include "base/profile.h"

namespace paceline::engine {

/// The precision that activations have inside a stage and on the wire.
ov::element::Type inference_precision(ov::Core& core, Profile profile);

/// Elements that share a scale in most of the model's compressed weights; 0 where none is grouped.
std::uint64_t weight_group_size(const ov::Model& model);

/// `threads` 0 leaves the number to the device.
ov::AnyMap cpu_properties(ov::Core& core, Profile profile, std::uint32_t threads,
                          std::uint64_t weight_group);

}  // namespace paceline::engine
