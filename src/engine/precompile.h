// Filling the cache of compiled forms ahead of use, and what it gains. No OpenVINO in this header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/profile.h"
#include "shard/form_cache.h"

namespace paceline::engine {

/// What is loaded, and how.
struct FormOptions {
  std::filesystem::path package;
  std::string package_digest;
  LayerRange layers;
  std::string device = "CPU";
  Profile profile = Profile::kFast;
  std::uint32_t threads = 0;  ///< 0: the device's choice
  bool stores = true;         ///< what was compiled goes into the cache
  /// Called before the package is read, so that no import waits for it: verifies what is read. May
  /// be empty.
  std::function<Status()> before_reading;
};

struct PrecompileReport {
  bool was_there = false;       ///< a form that fits was in the cache before
  std::string reason;           ///< why it was compiled, where it was
  std::string warning;          ///< damage that was found; may be empty
  Duration without_cache = {};  ///< reading, cutting and compiling
  Duration with_cache = {};     ///< hashing and importing
  std::uint64_t form_bytes = 0;
};

/// Compiles the stateful stage where the cache has no form of it that fits, stores it, and loads it
/// from there once to see that and how fast it works. kNotFound names the devices there are where
/// `device` is none, kUnimplemented where it cannot export and import, kUnavailable where the form
/// cannot be stored or is not taken back.
Result<PrecompileReport> precompile(const FormOptions& options, const shard::FormCache& cache);

/// Compiles one of the layers in paged form, exports it and imports it again. What the plugin says
/// where it refuses; empty where the import works.
Result<std::string> why_paged_is_not_imported(const FormOptions& options);

}  // namespace paceline::engine
