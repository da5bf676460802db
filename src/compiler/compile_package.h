// paceline compile: from what people have to a package that appears whole, or not at all.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/error.h"
#include "compiler/progress.h"
#include "cut/self_test.h"
#include "shard/manifest.h"

namespace paceline::compiler {

struct CompileOptions {
  std::uint32_t threads = 1;
  std::uint64_t memory_bytes = 0;  ///< for the self-test; 0: most of what is free
};

struct CompileReport {
  shard::Manifest manifest;
  cut::SelfTestReport self_test;
};

/// `source`: a GGUF file, a Hugging Face directory of safetensors, or a directory with an OpenVINO
/// decoder IR (openvino_model.xml and .bin).
/// `target` must not exist, but may be the IR directory itself: then only the manifest is written.
/// Files of an IR directory are hard links in the package where the file system allows, else
/// copies. Ends with the self-test of the cut; an error, or a Progress that says no, leaves
/// nothing.
Result<CompileReport> compile_package(const std::filesystem::path& source,
                                      const std::filesystem::path& target,
                                      const CompileOptions& options, Progress& progress);

}  // namespace paceline::compiler
