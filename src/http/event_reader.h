// Server-sent events out of bytes as they come. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace paceline::http {

/// Knows the data of events, which is all that the streams of APIs have. Lines end with \n or \r\n.
/// Thread-compatible.
class EventReader {
 public:
  /// Of an event; a larger one ends the stream.
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
  /// False: enough.
  using OnData = std::function<bool(std::string_view data)>;

  /// Calls for each event that is complete by now. False where `on_data` says so, or an event is
  /// too large.
  bool add(std::string_view bytes, const OnData& on_data);

 private:
  bool take_line(std::string_view line, const OnData& on_data);

  std::string line_;  ///< as far as it has come
  std::string data_;
  bool has_data_ = false;
};

}  // namespace paceline::http
