#include "wire/handshake.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace paceline::wire {
namespace {

std::string text_of(const std::string& value) { return fmt::format("'{}'", value); }
std::string text_of(std::uint32_t value) { return fmt::format("{}", value); }
std::string text_of(std::size_t value) { return fmt::format("{}", value); }
std::string text_of(Profile value) { return std::string(to_string(value)); }
std::string text_of(EngineKind value) { return std::string(to_string(value)); }
std::string text_of(LinkPrecision value) { return std::string(to_string(value)); }
std::string text_of(ElementType value) { return std::string(to_string(value)); }
std::string text_of(LayerRange value) { return fmt::format("[{}, {})", value.begin, value.end); }
std::string text_of(const std::vector<std::uint64_t>& value) {
  return fmt::format("[{}]", fmt::join(value, ", "));
}

template <typename T>
Status same(std::string_view field, const T& offered, const T& own) {
  if (offered == own) return {};
  return fail(ErrorCode::kFailedPrecondition,
              "link: {} differs: the upstream stage has {}, this stage {}", field, text_of(offered),
              text_of(own));
}

Status compare_boundaries(const std::vector<BoundarySpec>& offered,
                          const std::vector<BoundarySpec>& own) {
  PACELINE_RETURN_IF_ERROR(same("number of boundary tensors", offered.size(), own.size()));
  for (std::size_t i = 0; i < own.size(); ++i) {
    PACELINE_RETURN_IF_ERROR(
        same(fmt::format("boundary[{}].name", i), offered[i].name, own[i].name));
    PACELINE_RETURN_IF_ERROR(
        same(fmt::format("boundary[{}].type", i), offered[i].type, own[i].type));
    PACELINE_RETURN_IF_ERROR(
        same(fmt::format("boundary[{}].row_shape", i), offered[i].row_shape, own[i].row_shape));
  }
  return {};
}

}  // namespace

Status compare_links(const LinkStage& offered, const LinkStage& own) {
  PACELINE_RETURN_IF_ERROR(same("package_digest", offered.package_digest, own.package_digest));
  PACELINE_RETURN_IF_ERROR(same("upstream_layers", offered.upstream_layers, own.upstream_layers));
  PACELINE_RETURN_IF_ERROR(
      same("downstream_layers", offered.downstream_layers, own.downstream_layers));
  if (offered.upstream_layers.end != offered.downstream_layers.begin) {
    return fail(ErrorCode::kFailedPrecondition, "link: layers {} and {} do not meet",
                text_of(offered.upstream_layers), text_of(offered.downstream_layers));
  }
  PACELINE_RETURN_IF_ERROR(same("profile", offered.profile, own.profile));
  PACELINE_RETURN_IF_ERROR(same("engine", offered.engine, own.engine));
  PACELINE_RETURN_IF_ERROR(same("isa", offered.isa, own.isa));
  PACELINE_RETURN_IF_ERROR(
      same("openvino_version", offered.openvino_version, own.openvino_version));
  PACELINE_RETURN_IF_ERROR(
      same("logical_block_tokens", offered.logical_block_tokens, own.logical_block_tokens));
  PACELINE_RETURN_IF_ERROR(same("link_precision", offered.link_precision, own.link_precision));
  return compare_boundaries(offered.boundary, own.boundary);
}

}  // namespace paceline::wire
