#include "compiler/package_analysis.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include <openvino/op/constant.hpp>
#include <openvino/runtime/core.hpp>

#include "system/files.h"
#include "system/memory.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMaxConfigBytes = 16ULL << 20;
/// Kinds of storage below this share are left out of the summary.
constexpr double kNotablePercent = 2.0;
/// A longer last dimension is a row.
constexpr std::size_t kLargestGroup = 128;

void add_pieces(const cut::ByteExtents& extents, const shard::Parts& parts,
                std::vector<shard::Piece>& pieces) {
  for (const cut::ByteExtent& extent : extents) {
    pieces.push_back({extent.offset, extent.size, parts});
  }
}

/// max_position_embeddings of config.json; 0 where it is not told.
std::uint32_t context_tokens(const fs::path& directory) {
  const auto text = system::read_text_file(directory / "config.json", kMaxConfigBytes);
  if (!text) return 0;
  const auto config = nlohmann::json::parse(*text, nullptr, false);
  if (!config.is_object()) return 0;
  for (const char* name : {"max_position_embeddings", "n_positions", "seq_length"}) {
    const auto field = config.find(name);
    if (field != config.end() && field->is_number_unsigned()) {
      return static_cast<std::uint32_t>(
          std::min<std::uint64_t>(field->get<std::uint64_t>(), UINT32_MAX));
    }
  }
  return 0;
}

}  // namespace

std::string describe_quantization(const ov::Model& model) {
  std::map<std::string, std::uint64_t> bytes_by_kind;
  std::uint64_t all_bytes = 0;
  for (const auto& node : model.get_ops()) {
    const auto constant = ov::as_type_ptr<ov::op::v0::Constant>(node);
    if (!constant || constant->get_shape().size() < 2) continue;
    const ov::Shape& shape = constant->get_shape();
    std::string kind = constant->get_element_type().get_type_name();
    // [rows, groups, group], of a stack of experts [experts, rows, groups, group].
    const bool is_grouped = shape.size() >= 3 && shape.back() > 1 && shape.back() <= kLargestGroup;
    if (is_grouped && !constant->get_element_type().is_real()) {
      kind += fmt::format(" group {}", shape.back());
    }
    bytes_by_kind[kind] += constant->get_byte_size();
    all_bytes += constant->get_byte_size();
  }
  std::vector<std::pair<std::string, std::uint64_t>> kinds(bytes_by_kind.begin(),
                                                           bytes_by_kind.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& left, const auto& right) { return left.second > right.second; });
  std::string text;
  for (const auto& [kind, bytes] : kinds) {
    const double percent = 100.0 * static_cast<double>(bytes) / static_cast<double>(all_bytes);
    if (percent < kNotablePercent) break;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", kind, percent);
  }
  return text;
}

DecoderPackage::DecoderPackage(fs::path directory, cut::DecoderIr ir, cut::DecoderAnalysis analysis)
    : directory_(std::move(directory)), ir_(std::move(ir)), analysis_(std::move(analysis)) {}

Result<DecoderPackage> DecoderPackage::open(const fs::path& directory) {
  ov::Core core;
  PACELINE_ASSIGN_OR_RETURN(auto ir, cut::read_decoder_ir(core, directory / shard::kGraphFile,
                                                          directory / shard::kWeightsFile));
  auto analysis = cut::DecoderAnalysis::analyse(ir.model);
  if (!analysis) {
    return fail(analysis.error().with_context((directory / shard::kGraphFile).string()));
  }
  return DecoderPackage(directory, std::move(ir), *std::move(analysis));
}

Result<cut::SelfTestReport> DecoderPackage::self_test(const cut::SelfTestOptions& options) const {
  ov::Core core;
  cut::SelfTestOptions tidy = options;
  // Else the pages of every layer that was tested would stay, and count as this process's.
  tidy.after_model = [this] { system::release_memory(ir_.weight_bytes()); };
  return cut::self_test(core, analysis_, tidy);
}

Result<shard::Manifest> DecoderPackage::describe(const shard::ModelFacts& facts) const {
  shard::Manifest manifest;
  manifest.model = facts;
  manifest.layers = analysis_.layers();
  manifest.hidden_size = static_cast<std::uint32_t>(analysis_.boundary(0).hidden_size);
  manifest.vocabulary_size = static_cast<std::uint32_t>(analysis_.vocabulary_size());
  manifest.context_tokens = context_tokens(directory_);
  manifest.quantization = describe_quantization(*ir_.model);
  for (std::uint32_t layer = 0; layer < analysis_.layers(); ++layer) {
    const cut::LayerKv kv = analysis_.layer_kv(layer);
    manifest.kv.push_back({kv.key_heads, kv.key_head_size, kv.value_head_size});
  }
  return manifest;
}

Result<std::vector<shard::Piece>> DecoderPackage::pieces() const {
  PACELINE_ASSIGN_OR_RETURN(const auto extents, analysis_.constant_extents(ir_.weight_bytes()));
  std::vector<shard::Piece> pieces;
  add_pieces(extents.embedding, shard::Parts::of_embedding(), pieces);
  for (std::uint32_t layer = 0; layer < extents.layers.size(); ++layer) {
    add_pieces(extents.layers[layer], shard::Parts::of_layers({layer, layer + 1}), pieces);
  }
  add_pieces(extents.head, shard::Parts::of_head(), pieces);
  add_pieces(extents.shared, shard::Parts::of_all(), pieces);
  return pieces;
}

}  // namespace paceline::compiler
