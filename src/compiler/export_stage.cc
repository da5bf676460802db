#include "compiler/export_stage.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <openvino/op/constant.hpp>

#include "compiler/bin_file.h"
#include "compiler/ir_xml.h"
#include "cut/cut.h"
#include "cut/decoder_ir.h"
#include "cut/openvino_error.h"
#include "shard/data_file.h"
#include "shard/package.h"
#include "system/files.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using ov::op::v0::Constant;

constexpr std::uint64_t kPieceBytes = 1ULL << 20;
/// Below this a constant is left to write_ir_xml, which stores equal ones once.
constexpr std::uint64_t kSmallBytes = 4096;
/// For the graph, the small constants and alignment.
constexpr std::uint64_t kSpareDiskBytes = 32ULL << 20;

Status verify_layers(const fs::path& package, const shard::Manifest& manifest,
                     const ExportOptions& options, Progress& progress) {
  bool wanted = true;
  shard::VerifyOptions verification;
  verification.layers = options.layers;
  verification.threads = options.threads;
  verification.progress = [&](std::uint64_t done, std::uint64_t total) {
    wanted = progress.update("verifying", done, total) && wanted;
  };
  verification.is_wanted = [&] { return wanted; };
  return shard::verify(package, manifest, verification);
}

/// Disk for the stage beside `target`, whose parents may not exist yet.
Status check_disk(const fs::path& target, std::uint64_t bytes) {
  std::error_code code;
  fs::path existing = fs::absolute(target, code);
  while (existing.has_relative_path() && !fs::exists(existing, code)) {
    existing = existing.parent_path();
  }
  const fs::space_info space = fs::space(existing, code);
  const std::uint64_t needed = bytes + kSpareDiskBytes;
  if (code || space.available >= needed) return {};
  return fail(ErrorCode::kResourceExhausted, "{}: needs {} MiB of disk, {} MiB are free",
              target.string(), needed >> 20U, space.available >> 20U);
}

/// Copies constants from the package's .bin to the stage's.
class ConstantCopier {
 public:
  ConstantCopier(std::span<const std::byte> mapping, const shard::DataFile& source, BinFile& target,
                 Progress& progress)
      : mapping_(mapping), source_(source), target_(target), progress_(progress) {}

  /// Gives each constant a name of its own (an IR's need not be unique) and copies the large ones.
  Result<std::map<std::string, std::uint64_t>> copy_all(const ov::Model& stage) {
    std::vector<std::shared_ptr<Constant>> large;
    std::size_t count = 0;
    for (const auto& node : stage.get_ordered_ops()) {
      auto constant = ov::as_type_ptr<Constant>(node);
      if (!constant) continue;
      constant->set_friendly_name(fmt::format("constant_{}", count++));
      if (constant->get_byte_size() <= kSmallBytes) continue;
      total_ += constant->get_byte_size();
      large.push_back(std::move(constant));
    }
    std::map<std::string, std::uint64_t> offsets;
    std::map<std::pair<const void*, std::uint64_t>, std::uint64_t> known;  // nodes may share bytes
    for (const auto& constant : large) {
      const std::uint64_t bytes = constant->get_byte_size();
      const auto [place, is_new] = known.try_emplace({constant->get_data_ptr(), bytes}, 0);
      if (is_new) {
        place->second = target_.reserve(bytes);
        PACELINE_RETURN_IF_ERROR(copy(constant->get_data_ptr(), bytes, place->second));
      }
      offsets.emplace(constant->get_friendly_name(), place->second);
    }
    return offsets;
  }

 private:
  /// From the file where the bytes lie in it, so that its pages do not count as this process's.
  Status copy(const void* data, std::uint64_t bytes, std::uint64_t to) {
    const auto* begin = static_cast<const std::byte*>(data);
    const std::less<const std::byte*> before;
    const bool is_mapped =
        !before(begin, mapping_.data()) && before(begin, mapping_.data() + mapping_.size());
    if (!is_mapped) return target_.write(to, {begin, static_cast<std::size_t>(bytes)});
    const auto from = static_cast<std::uint64_t>(begin - mapping_.data());
    buffer_.resize(static_cast<std::size_t>(std::min(bytes, kPieceBytes)));
    for (std::uint64_t done = 0; done < bytes; done += buffer_.size()) {
      if (bytes - done < buffer_.size()) buffer_.resize(static_cast<std::size_t>(bytes - done));
      PACELINE_RETURN_IF_ERROR(source_.read(from + done, buffer_));
      PACELINE_RETURN_IF_ERROR(target_.write(to + done, buffer_));
      done_ += buffer_.size();
      if (!progress_.update("weights", done_, total_)) {
        return fail(ErrorCode::kCancelled, "the export was interrupted");
      }
    }
    return {};
  }

  std::span<const std::byte> mapping_;
  const shard::DataFile& source_;
  BinFile& target_;
  Progress& progress_;
  std::vector<std::byte> buffer_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

void mark(ov::Model& stage, const shard::Manifest& manifest, LayerRange layers) {
  stage.set_rt_info(manifest.digest, "paceline", "package_digest");
  stage.set_rt_info(layers.begin, "paceline", "first_layer");
  stage.set_rt_info(layers.end, "paceline", "end_layer");
  stage.set_rt_info(manifest.layers, "paceline", "layers");
}

Status write_stage(const fs::path& package, const shard::Manifest& manifest, LayerRange layers,
                   const fs::path& directory, Progress& progress) {
  ov::Core core;
  const fs::path bin = package / shard::kWeightsFile;
  PACELINE_ASSIGN_OR_RETURN(const auto ir,
                            cut::read_decoder_ir(core, package / shard::kGraphFile, bin));
  PACELINE_ASSIGN_OR_RETURN(const auto analysis, cut::DecoderAnalysis::analyse(ir.model));
  if (analysis.layers() != manifest.layers) {
    return fail(ErrorCode::kInvalidArgument, "{}: the graph has {} layers, its manifest says {}",
                package.string(), analysis.layers(), manifest.layers);
  }
  PACELINE_ASSIGN_OR_RETURN(const auto stage, analysis.cut(layers));
  mark(*stage, manifest, layers);
  PACELINE_ASSIGN_OR_RETURN(const auto source, shard::DataFile::open(bin));
  PACELINE_ASSIGN_OR_RETURN(auto target, BinFile::create(directory / shard::kWeightsFile));
  ConstantCopier copier(ir.weight_bytes(), source, target, progress);
  PACELINE_ASSIGN_OR_RETURN(auto offsets, copier.copy_all(*stage));
  return write_ir_xml(stage, std::move(offsets), target, directory / shard::kGraphFile);
}

}  // namespace

Result<ExportReport> export_stage(const fs::path& package, const fs::path& target,
                                  const ExportOptions& options, Progress& progress) {
  PACELINE_ASSIGN_OR_RETURN(const auto manifest, shard::read_manifest(package));
  PACELINE_RETURN_IF_ERROR(manifest.check_range(options.layers));
  PACELINE_RETURN_IF_ERROR(check_disk(target, manifest.bytes_of(options.layers)));
  PACELINE_ASSIGN_OR_RETURN(auto directory, system::AtomicDirectory::create(target));
  PACELINE_RETURN_IF_ERROR(verify_layers(package, manifest, options, progress));
  PACELINE_RETURN_IF_ERROR(
      write_stage(package, manifest, options.layers, directory.path(), progress));
  ExportReport report;
  std::error_code code;
  report.graph_bytes = fs::file_size(directory.path() / shard::kGraphFile, code);
  report.weight_bytes = fs::file_size(directory.path() / shard::kWeightsFile, code);
  PACELINE_RETURN_IF_ERROR(directory.commit());
  return report;
}

}  // namespace paceline::compiler
