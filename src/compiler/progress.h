// How long work tells what it does, and learns that nobody wants it any more.
#pragma once

#include <cstdint>
#include <string_view>

namespace paceline::compiler {

class Progress {
 public:
  virtual ~Progress() = default;
  /// Called at least once a phase and every few megabytes; `phase` is a short word for the user,
  /// e.g. "weights". False asks for an end: the work returns kCancelled.
  virtual bool update(std::string_view phase, std::uint64_t done_bytes,
                      std::uint64_t total_bytes) = 0;
  /// One line that the user should know.
  virtual void note(std::string_view) {}
};

/// Where nobody looks.
class NoProgress final : public Progress {
 public:
  bool update(std::string_view, std::uint64_t, std::uint64_t) override { return true; }
};

}  // namespace paceline::compiler
