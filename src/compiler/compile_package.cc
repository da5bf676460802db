#include "compiler/compile_package.h"

#include <optional>
#include <utility>

#include "compiler/gguf_package.h"
#include "compiler/hf_package.h"
#include "compiler/ir_package.h"
#include "compiler/package_analysis.h"
#include "shard/build_manifest.h"
#include "shard/package.h"
#include "system/files.h"
#include "system/memory.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

bool is_same_directory(const fs::path& left, const fs::path& right) {
  std::error_code code;
  return fs::equivalent(left, right, code);
}

/// Files other than the manifest, from the source.
Result<shard::ModelFacts> fill_directory(const fs::path& source, const fs::path& directory,
                                         Progress& progress) {
  std::error_code code;
  if (is_hf_directory(source)) return fill_from_hf(source, directory, progress);
  if (fs::is_directory(source, code)) return fill_from_ir(source, directory, progress);
  return fill_from_gguf(source, directory, progress);
}

Status run_self_test(const DecoderPackage& package, const CompileOptions& options,
                     Progress& progress, cut::SelfTestReport& report) {
  cut::SelfTestOptions test;
  test.threads = options.threads;
  test.memory_bytes = options.memory_bytes;
  if (test.memory_bytes == 0) {
    PACELINE_ASSIGN_OR_RETURN(const auto memory, system::machine_memory());
    test.memory_bytes = memory.available_bytes / 10 * 8;
  }
  test.progress = [&](std::uint32_t done, std::uint32_t all) {
    return progress.update("self-test", done, all);
  };
  PACELINE_ASSIGN_OR_RETURN(report, package.self_test(test));
  return {};
}

/// The manifest of a filled directory, after the self-test. `named` holds the same graph and
/// weights and is what errors are to name: the user's own files where there are such.
Result<CompileReport> finish(const fs::path& directory, const fs::path& named,
                             const shard::ModelFacts& facts, const CompileOptions& options,
                             Progress& progress) {
  PACELINE_ASSIGN_OR_RETURN(const auto package, DecoderPackage::open(named));
  CompileReport report;
  PACELINE_RETURN_IF_ERROR(run_self_test(package, options, progress, report.self_test));
  PACELINE_ASSIGN_OR_RETURN(auto manifest, package.describe(facts));
  PACELINE_ASSIGN_OR_RETURN(auto pieces, package.pieces());
  shard::BuildOptions build;
  build.threads = options.threads;
  bool wanted = true;
  build.progress = [&](std::uint64_t done, std::uint64_t all) {
    wanted = progress.update("hashing", done, all) && wanted;
  };
  PACELINE_ASSIGN_OR_RETURN(report.manifest, shard::build_manifest(directory, std::move(manifest),
                                                                   std::move(pieces), build));
  if (!wanted) return fail(ErrorCode::kCancelled, "interrupted");
  PACELINE_RETURN_IF_ERROR(shard::write_manifest(directory, &report.manifest));
  return report;
}

}  // namespace

Result<CompileReport> compile_package(const fs::path& source, const fs::path& target,
                                      const CompileOptions& options, Progress& progress) {
  if (is_same_directory(source, target)) {
    PACELINE_ASSIGN_OR_RETURN(const auto facts, ir_facts(source));
    return finish(target, source, facts, options, progress);
  }
  std::error_code code;
  if (!fs::exists(source, code)) {
    return fail(ErrorCode::kNotFound, "{}: no such file or directory", source.string());
  }
  PACELINE_ASSIGN_OR_RETURN(auto directory, system::AtomicDirectory::create(target));
  PACELINE_ASSIGN_OR_RETURN(const auto facts, fill_directory(source, directory.path(), progress));
  const fs::path& named = facts.source == "openvino" ? source : directory.path();
  PACELINE_ASSIGN_OR_RETURN(auto report, finish(directory.path(), named, facts, options, progress));
  PACELINE_RETURN_IF_ERROR(directory.commit());
  return report;
}

}  // namespace paceline::compiler
