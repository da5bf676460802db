#include "shard/manifest.h"

#include <algorithm>

namespace paceline::shard {

Parts Parts::of_layers(LayerRange range) {
  Parts parts;
  parts.layers.push_back(range);
  return parts;
}

Parts Parts::of_embedding() {
  Parts parts;
  parts.embedding = true;
  return parts;
}

Parts Parts::of_head() {
  Parts parts;
  parts.head = true;
  return parts;
}

Parts Parts::of_all() {
  Parts parts;
  parts.shared = true;
  return parts;
}

void Parts::add(const Parts& other) {
  embedding = embedding || other.embedding;
  head = head || other.head;
  shared = shared || other.shared;
  std::vector<LayerRange> all = layers;
  all.insert(all.end(), other.layers.begin(), other.layers.end());
  std::sort(all.begin(), all.end(), [](LayerRange a, LayerRange b) { return a.begin < b.begin; });
  layers.clear();
  for (const LayerRange range : all) {
    if (!layers.empty() && range.begin <= layers.back().end) {
      layers.back().end = std::max(layers.back().end, range.end);
    } else {
      layers.push_back(range);
    }
  }
}

bool Parts::read_by(LayerRange range, std::uint32_t layer_count) const {
  if (shared || (embedding && range.begin == 0) || (head && range.end == layer_count)) return true;
  return std::any_of(layers.begin(), layers.end(), [range](LayerRange own) {
    return own.begin < range.end && range.begin < own.end;
  });
}

Status Manifest::check_range(LayerRange range) const {
  if (range.begin < range.end && range.end <= layers) return {};
  return fail(ErrorCode::kInvalidArgument,
              "layers [{}, {}) are not a range of this model, which has layers [0, {})",
              range.begin, range.end, layers);
}

std::vector<std::size_t> Manifest::extents_of(LayerRange range) const {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].parts.read_by(range, layers)) indices.push_back(i);
  }
  return indices;
}

std::optional<std::size_t> Manifest::extent_with(std::uint64_t offset, std::uint64_t bytes) const {
  const auto after =
      std::upper_bound(extents.begin(), extents.end(), offset,
                       [](std::uint64_t at, const Extent& extent) { return at < extent.offset; });
  if (after == extents.begin()) return std::nullopt;
  const Extent& extent = *(after - 1);
  const std::uint64_t within = offset - extent.offset;
  if (within > extent.bytes || bytes > extent.bytes - within) return std::nullopt;
  return static_cast<std::size_t>(after - 1 - extents.begin());
}

std::uint64_t Manifest::bytes_of(LayerRange range) const {
  std::uint64_t bytes = 0;
  for (const std::size_t index : extents_of(range)) bytes += extents[index].bytes;
  return bytes;
}

PartBytes Manifest::part_bytes() const {
  PartBytes sums;
  sums.layers.assign(layers, 0);
  for (const Extent& extent : extents) {
    if (extent.parts.shared) {
      sums.shared += extent.bytes;
      continue;
    }
    if (extent.parts.embedding) sums.embedding += extent.bytes;
    if (extent.parts.head) sums.head += extent.bytes;
    std::uint64_t readers = 0;
    for (const LayerRange range : extent.parts.layers) readers += range.size();
    std::uint64_t rest = readers == 0 ? 0 : extent.bytes % readers;
    for (const LayerRange range : extent.parts.layers) {
      for (std::uint32_t layer = range.begin; layer < range.end; ++layer) {
        sums.layers[layer] += extent.bytes / readers + (rest > 0 ? 1 : 0);
        rest -= rest > 0 ? 1 : 0;
      }
    }
  }
  return sums;
}

std::uint64_t Manifest::kv_bytes_per_token(LayerRange range,
                                           std::uint64_t bytes_per_element) const {
  std::uint64_t elements = 0;
  for (std::uint32_t layer = range.begin; layer < range.end; ++layer) {
    const LayerKv& own = kv[layer];
    elements +=
        std::uint64_t{own.key_heads} * (std::uint64_t{own.key_head_size} + own.value_head_size);
  }
  return elements * bytes_per_element;
}

}  // namespace paceline::shard
