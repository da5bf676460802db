// The last requests, with ids, times and counts; nothing of what was asked or answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace paceline::obs {

struct RequestRecord {
  std::uint64_t number = 0;  ///< from 1, in the order of their ends; the log gives it
  std::string id;
  std::string route;
  std::string model;
  std::string tenant;
  std::int64_t unix_seconds = 0;  ///< of its end
  std::uint64_t prompt_tokens = 0;
  std::uint64_t reused_tokens = 0;  ///< of the prompt, found in the KV cache
  std::uint64_t generated_tokens = 0;
  Duration queue{};
  std::optional<Duration> first_token{};  ///< since its arrival
  Duration whole{};
  std::string end;  ///< "stop", "length", "cancelled", "error", or "refused"
  int status = 0;   ///< of what was refused
};

/// Thread-safe. Texts that clients choose are cut, so that the log is bounded in bytes, too.
class RequestLog {
 public:
  explicit RequestLog(std::size_t kept = 200) : kept_(kept) {}

  void add(RequestRecord record);
  /// Of a request that had no answer; nothing where the log has it already.
  void add_refused(RequestRecord record);

  /// Those with a higher number, older ones first.
  std::vector<RequestRecord> after(std::uint64_t number) const;

 private:
  void add_locked(RequestRecord record);

  const std::size_t kept_;
  mutable std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::deque<RequestRecord> records_;
};

}  // namespace paceline::obs
