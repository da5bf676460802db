// Making a manifest: from the pieces of the weights that a graph's analysis found, and the files of
// the directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "shard/manifest.h"
#include "shard/package.h"

namespace paceline::shard {

/// Gaps up to this long between pieces with the same readers count as data of their extent.
inline constexpr std::uint64_t kMaxPaddingBytes = 4096;

/// Bytes of the weights file that one reader (or several) of the graph needs, e.g. a constant.
struct Piece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  Parts parts;
};

/// The extents, not hashed yet, that cover `pieces`: where pieces overlap (constants stored once
/// and used twice) their readers are united; neighbours with equal readers are merged, also over
/// small padding; the result is split at kMaxExtentBytes. Pieces may come in any order; those of 0
/// bytes or without readers are dropped. kInvalidArgument for a piece beyond `weight_bytes`.
Result<std::vector<Extent>> plan_extents(std::vector<Piece> pieces, std::uint64_t weight_bytes);

struct BuildOptions {
  std::uint32_t threads = 1;
  Progress progress;
  IsWanted is_wanted;
};

/// Completes a manifest whose model facts, layers, sizes, quantization and kv the caller has
/// filled: sets the versions, lists and hashes every file of the flat `directory` (but the weights
/// and an old manifest; dot files and subdirectories are left out) and the extents. Writes nothing.
/// The result is checked by parsing it: kInvalidArgument names a field that is not as it should be;
/// kCancelled where nobody wants it any more.
Result<Manifest> build_manifest(const std::filesystem::path& directory, Manifest facts,
                                std::vector<Piece> pieces, const BuildOptions& options = {});

}  // namespace paceline::shard
