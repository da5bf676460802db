#include "engine/stage_engine.h"

namespace paceline::engine {

std::uint64_t BoundarySpec::row_bytes() const {
  std::uint64_t bytes = size_bytes(type);
  for (const std::uint64_t dimension : row_shape) bytes *= dimension;
  return bytes;
}

std::size_t StageBatch::rows() const {
  std::size_t count = 0;
  for (const SequenceRows& sequence : sequences) count += sequence.new_tokens;
  return count;
}

}  // namespace paceline::engine
