// Writes a graph's openvino_model.xml over a .bin whose layout is ours.
//
// ov::pass::Serialize merges equal constants and orders the .bin by its own walk, which would undo
// the layer order and write every weight a second time. So it writes the .xml into memory and its
// .bin to nowhere, and each constant's offset is then replaced by the true one, by name. The small
// constants (shapes, axes) go to the end of the .bin.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <openvino/core/model.hpp>

#include "base/error.h"
#include "compiler/bin_file.h"

namespace paceline::compiler {

/// `offsets` places constants of `model` by friendly name; all others are appended to `bin`.
/// Friendly names of constants must be unique.
Status write_ir_xml(const std::shared_ptr<ov::Model>& model,
                    std::map<std::string, std::uint64_t> offsets, BinFile& bin,
                    const std::filesystem::path& path);

/// The .xml text with the offset of every Const layer replaced. kInternal where one has no place in
/// `offsets`.
Result<std::string> place_constants(std::string_view xml,
                                    const std::map<std::string, std::uint64_t>& offsets);

}  // namespace paceline::compiler
