// Reads an OpenVINO IR so that its constants are views of a mapping whose start is known.
//
// Not ov::Core::read_model(path): that maps the .bin too, but keeps the mapping to itself, and then
// no constant's offset can be told by public means.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <openvino/runtime/core.hpp>
#include <span>

#include "base/error.h"

namespace paceline::cut {

/// Nothing of the .bin is in memory until it is used; holes of a sparse .bin are never read.
struct DecoderIr {
  std::shared_ptr<ov::Model> model;
  ov::Tensor weights;  ///< the whole .bin; the model's constants lie in it and keep it mapped
  std::span<const std::byte> weight_bytes() const;
};

/// Reads an .xml and the .bin it belongs to. kNotFound for a missing file, kDataLoss for what is
/// no IR or where constants lie beyond the .bin.
Result<DecoderIr> read_decoder_ir(ov::Core& core, const std::filesystem::path& xml,
                                  const std::filesystem::path& bin);

}  // namespace paceline::cut
