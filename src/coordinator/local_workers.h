// Worker processes that the coordinator starts on its own machine, on loopback.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "system/child_process.h"

namespace paceline::coordinator {

/// Ends its processes when it is destroyed; they also end with this process.
class LocalWorkers {
 public:
  /// Starts `count` workers of this very program, each with `package`, and waits until they listen.
  static Result<LocalWorkers> start(const std::filesystem::path& package, std::uint32_t count);

  const std::vector<std::string>& addresses() const { return addresses_; }
  const std::vector<system::ChildProcess>& processes() const { return processes_; }

 private:
  std::vector<system::ChildProcess> processes_;
  std::vector<std::string> addresses_;
};

/// What a worker prints when it listens, before its address.
inline constexpr char kListeningPrefix[] = "listening on ";

}  // namespace paceline::coordinator
