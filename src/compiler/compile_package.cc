#include "compiler/compile_package.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <utility>
#include <vector>

#include "compiler/gguf_package.h"
#include "compiler/hf_package.h"
#include "compiler/ir_package.h"
#include "compiler/package_analysis.h"
#include "compiler/source_identity.h"
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

constexpr char kJournalFile[] = ".journal";

/// An IR is linked, not converted: there is nothing to go on with.
bool is_ir(const fs::path& source) {
  std::error_code code;
  return fs::is_directory(source, code) && !is_hf_directory(source);
}

Result<std::uint64_t> memory_for(const CompileOptions& options) {
  if (options.memory_bytes != 0) return options.memory_bytes;
  PACELINE_ASSIGN_OR_RETURN(const auto memory, system::machine_memory());
  return std::min(kDefaultMemoryBytes, memory.available_bytes / 10 * 8);
}

/// Removes all that an earlier attempt left but the weights that the journal knows of. Without a
/// journal the weights may be a link to somebody's own file: they are removed, never written to.
void tidy_up(const fs::path& directory) {
  std::error_code code;
  const bool has_journal = fs::exists(directory / kJournalFile, code);
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    const std::string name = entry.path().filename().string();
    const bool is_work = name == kJournalFile || name == shard::kWeightsFile;
    if (!has_journal || !is_work) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove_all(path, code);
}

/// Files other than the manifest, from the source.
Result<FilledPackage> fill_directory(const fs::path& source, const fs::path& directory,
                                     const CompileOptions& options, Progress& progress) {
  if (is_ir(source)) {
    PACELINE_ASSIGN_OR_RETURN(auto facts, fill_from_ir(source, directory, progress));
    return FilledPackage{std::move(facts)};
  }
  WriteOptions write;
  write.weights = options.weights;
  write.jobs = options.threads;
  write.measure = options.measure;
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t memory, memory_for(options));
  write.memory_bytes = memory - std::min(memory, kBaseMemoryBytes);
  if (options.resume) {
    write.journal = directory / kJournalFile;
    write.source_identity = source_identity(source);
  }
  if (is_hf_directory(source)) return fill_from_hf(source, directory, progress, write);
  return fill_from_gguf(source, directory, progress, write);
}

Status run_self_test(const DecoderPackage& package, const CompileOptions& options,
                     Progress& progress, cut::SelfTestReport& report) {
  cut::SelfTestOptions test;
  test.threads = options.threads;
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t memory, memory_for(options));
  test.memory_bytes = memory - std::min(memory, kBaseMemoryBytes);
  test.progress = [&](std::uint32_t done, std::uint32_t all) {
    return progress.update("self-test", done, all);
  };
  PACELINE_ASSIGN_OR_RETURN(report, package.self_test(test));
  return {};
}

/// Hashes beside the self-test, which does not keep all cores busy.
class Hashing {
 public:
  Hashing(const fs::path& directory, shard::Manifest facts, std::vector<shard::Piece> pieces,
          std::uint32_t threads)
      : manifest_(std::async(std::launch::async, [=, this]() mutable {
          shard::BuildOptions build;
          build.threads = threads;
          build.is_wanted = [this] { return is_wanted_.load(); };
          build.progress = [this](std::uint64_t done, std::uint64_t total) {
            done_ = done;
            total_ = total;
          };
          return shard::build_manifest(directory, std::move(facts), std::move(pieces), build);
        })) {}
  /// Ends it where nobody waited.
  ~Hashing() { is_wanted_ = false; }

  Result<shard::Manifest> wait(Progress& progress) {
    do {
      if (!progress.update("hashing", done_, total_)) is_wanted_ = false;
    } while (manifest_.wait_for(kLookEvery) != std::future_status::ready);
    auto manifest = manifest_.get();
    const bool was_wanted = is_wanted_ && progress.update("hashing", done_, total_);
    if (manifest && !was_wanted) return fail(ErrorCode::kCancelled, "interrupted");
    return manifest;
  }

 private:
  static constexpr auto kLookEvery = std::chrono::milliseconds(50);
  std::atomic<bool> is_wanted_ = true;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<std::uint64_t> total_ = 1;
  std::future<Result<shard::Manifest>> manifest_;  ///< the last: it uses the others
};

/// The manifest of a filled directory, after the self-test. `named` holds the same graph and
/// weights and is what errors are to name: the user's own files where there are such.
Result<CompileReport> finish(const fs::path& directory, const fs::path& named, FilledPackage filled,
                             const CompileOptions& options, Progress& progress) {
  PACELINE_ASSIGN_OR_RETURN(const auto package, DecoderPackage::open(named));
  CompileReport report;
  report.weights = std::move(filled.weights);
  PACELINE_ASSIGN_OR_RETURN(auto manifest, package.describe(filled.facts));
  PACELINE_ASSIGN_OR_RETURN(auto pieces, package.pieces());
  Hashing hashing(directory, std::move(manifest), std::move(pieces), options.threads);
  PACELINE_RETURN_IF_ERROR(run_self_test(package, options, progress, report.self_test));
  PACELINE_ASSIGN_OR_RETURN(report.manifest, hashing.wait(progress));
  PACELINE_RETURN_IF_ERROR(shard::write_manifest(directory, &report.manifest));
  return report;
}

/// All of it, into a directory that is not the target yet.
Result<CompileReport> make_package(const fs::path& source, const fs::path& directory,
                                   const CompileOptions& options, Progress& progress) {
  PACELINE_ASSIGN_OR_RETURN(auto filled, fill_directory(source, directory, options, progress));
  const fs::path& named = is_ir(source) ? source : directory;
  return finish(directory, named, std::move(filled), options, progress);
}

}  // namespace

Result<CompileReport> compile_package(const fs::path& source, const fs::path& target,
                                      const CompileOptions& options, Progress& progress) {
  if (is_same_directory(source, target)) {
    PACELINE_ASSIGN_OR_RETURN(auto facts, ir_facts(source));
    return finish(target, source, {std::move(facts)}, options, progress);
  }
  std::error_code code;
  if (!fs::exists(source, code)) {
    return fail(ErrorCode::kNotFound, "{}: no such file or directory", source.string());
  }
  const bool resume = options.resume && !is_ir(source);
  if (!resume) system::AtomicDirectory::discard(target);
  PACELINE_ASSIGN_OR_RETURN(auto directory, resume ? system::AtomicDirectory::resume(target)
                                                   : system::AtomicDirectory::create(target));
  if (resume) tidy_up(directory.path());
  auto report = make_package(source, directory.path(), options, progress);
  const fs::path journal = directory.path() / kJournalFile;
  if (!report) {
    const bool was_cancelled = report.error().code() == ErrorCode::kCancelled;
    if (!was_cancelled || !fs::exists(journal, code)) return report;
    const std::string kept = directory.path().string();
    directory.keep();
    return fail(ErrorCode::kCancelled, "{}; {} keeps what was done, and the same command goes on",
                report.error().message(), kept);
  }
  fs::remove(journal, code);
  PACELINE_RETURN_IF_ERROR(directory.commit());
  return report;
}

}  // namespace paceline::compiler
