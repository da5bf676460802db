// Where to listen and whom to dial: "host:port", "[::1]:port".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace paceline::net {

struct Endpoint {
  std::string host;        ///< a name or a numeric address, without brackets
  std::uint16_t port = 0;  ///< 0: any free one, for listening only
  /// With brackets around an IPv6 address.
  std::string to_string() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// kInvalidArgument, with what was expected, for anything but host:port.
Result<Endpoint> parse_endpoint(std::string_view text);

/// Whether only this machine can reach it: 127.0.0.0/8, ::1, the same mapped into IPv6, and the
/// name localhost, which this folder never asks a resolver for. Other names are not loopback.
bool is_loopback(const Endpoint& endpoint);

}  // namespace paceline::net
