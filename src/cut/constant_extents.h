// Which bytes of a package's .bin each part of the decoder reads.
//
// An IR's Constants are views of the .bin, so a constant's offset is its pointer less the start of
// the mapping on which the model was read. Rejected: parsing the .xml a second time, and OpenVINO's
// WeightlessCacheAttribute (it has the offset, but in no public header).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"

namespace paceline::cut {

class Graph;
struct LayerMap;

/// Bytes [offset, offset + size) of the .bin.
struct ByteExtent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  friend bool operator==(ByteExtent, ByteExtent) = default;
};

/// Sorted by offset and merged where they touch or overlap.
using ByteExtents = std::vector<ByteExtent>;

ByteExtents merge_extents(ByteExtents extents);
std::uint64_t total_bytes(const ByteExtents& extents);

/// A part lists all that it reads, but for what every layer reads. What two parts read, such as a
/// tied embedding, stands in both. `shared` also holds the small constants of all parts from which
/// shapes are inferred: a stage reads the whole .xml, and with holes there it would be refused.
struct ConstantExtents {
  ByteExtents embedding;            ///< read by the first stage only
  std::vector<ByteExtents> layers;  ///< by layer
  ByteExtents head;                 ///< read by the last stage only
  ByteExtents shared;               ///< needed by every stage

  /// All that the stage of `range` reads.
  ByteExtents of(LayerRange range) const;
};

/// As DecoderAnalysis::constant_extents.
Result<ConstantExtents> find_constant_extents(const Graph& graph, const LayerMap& map,
                                              std::span<const std::byte> weights);

}  // namespace paceline::cut
