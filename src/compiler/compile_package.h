// paceline compile: from what people have to a package that appears whole, or not at all.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/error.h"
#include "compiler/progress.h"
#include "compiler/stored_weight.h"
#include "compiler/weight_options.h"
#include "cut/self_test.h"
#include "shard/manifest.h"

namespace paceline::compiler {

/// What a compile takes unless it is told otherwise: enough for two layers of an 8B model.
inline constexpr std::uint64_t kDefaultMemoryBytes = 1280ULL << 20;
/// What the process needs beside weights: libraries, graph, tokenizer.
inline constexpr std::uint64_t kBaseMemoryBytes = 256ULL << 20;

struct CompileOptions {
  std::uint32_t threads = 1;
  /// Of the whole process, whatever the model's size; 0: kDefaultMemoryBytes, or most of what is
  /// free where that is less.
  std::uint64_t memory_bytes = 0;
  WeightOptions weights = {.weights = {}};
  /// Goes on with what an interrupted compile of the same source and options left in
  /// TARGET.partial, and leaves that in turn. Without, nothing is left.
  bool resume = true;
  bool measure = false;  ///< the errors of kept weights too
};

struct CompileReport {
  shard::Manifest manifest;
  cut::SelfTestReport self_test;
  StoredWeights weights;  ///< empty where the source was an IR
};

/// `source`: a GGUF file, a Hugging Face directory of safetensors, or a directory with an OpenVINO
/// decoder IR (openvino_model.xml and .bin).
/// `target` must not exist, but may be the IR directory itself: then only the manifest is written.
/// Files of an IR directory are hard links in the package where the file system allows, else
/// copies. Ends with the self-test of the cut. An error leaves nothing; a Progress that says no
/// (kCancelled) leaves nothing at the target.
Result<CompileReport> compile_package(const std::filesystem::path& source,
                                      const std::filesystem::path& target,
                                      const CompileOptions& options, Progress& progress);

}  // namespace paceline::compiler
