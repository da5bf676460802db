// Filling a sparse package with what a layer range needs, from a PackageSource.
//
// docs/package.md, "Fetching layers", has the order of steps and what survives an interruption.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/ids.h"
#include "shard/package.h"
#include "shard/package_source.h"

namespace paceline::shard {

/// In a directory that is being filled: the lock, and the bytes of the manifest to come.
inline constexpr char kFetchFile[] = ".paceline-fetch";

struct FetchOptions {
  std::optional<LayerRange> layers;  ///< nullopt: all
  std::string digest;                ///< that the source must have; empty: any
  std::uint32_t threads = 1;         ///< for verifying what is there
  /// `phase` is "checking" (what is there) or "fetching". One call at a time, from any thread.
  std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)> progress;
  IsWanted is_wanted;
};

struct FetchReport {
  std::string digest;
  LayerRange layers;
  std::uint64_t present_bytes = 0;  ///< were there and have their hash
  std::uint64_t fetched_bytes = 0;
};

/// Fills `target`, which may be new, an earlier fetch or a package. Memory: one extent, and what
/// the source holds. Nothing with a wrong hash is put in place. Errors name the source, or what is
/// wrong here: kFailedPrecondition for another digest, kAlreadyExists for a directory with other
/// content or one that another process fills, kResourceExhausted for too little disk (before
/// anything is fetched) or a full one, kDataLoss for bytes that do not have their hash. What is
/// fetched is kept: the next call verifies it and goes on.
Result<FetchReport> fetch_layers(PackageSource& source, const std::filesystem::path& target,
                                 const FetchOptions& options);

}  // namespace paceline::shard
