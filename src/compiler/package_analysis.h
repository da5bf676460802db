// What a package's graph tells for its manifest: layers, KV, who reads which bytes, quantization.
#pragma once

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "cut/cut.h"
#include "cut/decoder_ir.h"
#include "cut/self_test.h"
#include "shard/build_manifest.h"
#include "shard/manifest.h"

namespace paceline::compiler {

/// A directory with an OpenVINO decoder IR, read and analysed. Thread-compatible.
class DecoderPackage {
 public:
  static Result<DecoderPackage> open(const std::filesystem::path& directory);

  Result<cut::SelfTestReport> self_test(const cut::SelfTestOptions& options) const;
  /// All that the graph and config.json tell; files and extents are build_manifest's.
  Result<shard::Manifest> describe(const shard::ModelFacts& facts) const;
  Result<std::vector<shard::Piece>> pieces() const;

 private:
  DecoderPackage(std::filesystem::path directory, cut::DecoderIr ir, cut::DecoderAnalysis analysis);

  std::filesystem::path directory_;
  cut::DecoderIr ir_;
  cut::DecoderAnalysis analysis_;
};

/// A summary for people of how the constants are stored, the most bytes first, e.g.
/// "u4 group 32 73 %, i8 group 32 26 %".
std::string describe_quantization(const ov::Model& model);

}  // namespace paceline::compiler
