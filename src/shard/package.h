// Package directories (docs/package.md): reading the manifest, verifying files and extents, and
// copying the part of a package that a layer range needs.
//
// Knows nothing of the graph inside: that is src/cut and src/compiler.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/ids.h"
#include "shard/manifest.h"
#include "shard/progress.h"

namespace paceline::shard {

/// Reads DIR/paceline.json. Errors begin with the directory; kNotFound where it, or the manifest in
/// it, does not exist. Reads no other file.
Result<Manifest> read_manifest(const std::filesystem::path& directory);

/// Writes DIR/paceline.json atomically and sets `manifest->digest`.
Status write_manifest(const std::filesystem::path& directory, Manifest* manifest);

struct VerifyOptions {
  std::optional<LayerRange> layers;  ///< only what this range needs; nullopt: everything
  std::uint32_t threads = 1;
  Progress progress;
  IsWanted is_wanted;
};

/// Whether every file and the weights are there with the length that the manifest says. Fast: reads
/// no content. kNotFound for a missing file, kDataLoss for a wrong length.
Status check_lengths(const std::filesystem::path& directory, const Manifest& manifest);

/// Lengths as above, then the hash of every file and of the extents that are asked for, reading
/// with pread in 1 MiB per thread. Reports the first fault, files before extents: kDataLoss for
/// damage, kNotFound for an extent with a hole in it, kCancelled where nobody wants it any more.
Status verify(const std::filesystem::path& directory, const Manifest& manifest,
              const VerifyOptions& options = {});

/// The length and hash of one of `manifest.files`. kNotFound, kDataLoss as above.
Status verify_file(const std::filesystem::path& directory, const Manifest& manifest,
                   const std::string& name, const IsWanted& is_wanted = {});

/// The hash of extent `index` in the weights of the package; kNotFound where it has a hole,
/// kDataLoss where it is damaged.
Status verify_extent(const std::filesystem::path& directory, const Manifest& manifest,
                     std::size_t index);

/// Makes `target` a sparse package with what `range` needs, the manifest (hence the digest)
/// unchanged; checks the hashes of all it copies. `target` must not exist and appears whole.
Status copy_range(const std::filesystem::path& source, const std::filesystem::path& target,
                  LayerRange range);

}  // namespace paceline::shard
