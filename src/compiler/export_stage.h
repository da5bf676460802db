// paceline shard export: one stage of a package as an IR of its own, for any OpenVINO.
//
// Not a package: it has no manifest and no tokenizer (docs/package.md, "A stage of its own").
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/error.h"
#include "base/ids.h"
#include "compiler/progress.h"

namespace paceline::compiler {

struct ExportOptions {
  LayerRange layers;
  std::uint32_t threads = 1;  ///< for verifying
};

struct ExportReport {
  std::uint64_t graph_bytes = 0;   ///< of openvino_model.xml
  std::uint64_t weight_bytes = 0;  ///< of openvino_model.bin
};

/// Verifies what the layers need of the package (which may be sparse), cuts them out, and writes
/// openvino_model.xml and .bin into `target`, which must not exist and appears whole or not at all.
/// Constants are read at offsets, 1 MiB at a time: memory does not grow with their size. Errors:
/// those of verifying and cutting; kResourceExhausted where the disk is too small (before anything
/// is written) or full; kCancelled where `progress` says no.
Result<ExportReport> export_stage(const std::filesystem::path& package,
                                  const std::filesystem::path& target, const ExportOptions& options,
                                  Progress& progress);

}  // namespace paceline::compiler
