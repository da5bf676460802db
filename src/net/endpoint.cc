#include "net/endpoint.h"

#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <optional>

namespace paceline::net {
namespace {

tl::unexpected<Error> malformed(std::string_view text) {
  return fail(ErrorCode::kInvalidArgument,
              "address '{}': expected HOST:PORT or [IPV6]:PORT, the port from 0 to 65535", text);
}

std::optional<std::uint16_t> port_from(std::string_view digits) {
  std::uint16_t port = 0;
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, port);
  if (digits.empty() || error != std::errc() || stopped != end) return std::nullopt;
  return port;
}

bool is_host(std::string_view host) {
  if (host.empty() || host.size() > 253) return false;
  return host.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") ==
         std::string_view::npos;
}

bool is_ipv6(const std::string& host) {
  boost::system::error_code error;
  boost::asio::ip::make_address_v6(host, error);
  return !error;
}

}  // namespace

std::string Endpoint::to_string() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return malformed(text);
  const auto port = port_from(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  if (!port) return malformed(text);
  if (host.starts_with('[') && host.ends_with(']')) {
    Endpoint endpoint{std::string(host.substr(1, host.size() - 2)), *port};
    if (!is_ipv6(endpoint.host)) return malformed(text);
    return endpoint;
  }
  if (!is_host(host)) return malformed(text);
  return Endpoint{std::string(host), *port};
}

bool is_loopback(const Endpoint& endpoint) {
  if (endpoint.host == "localhost") return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(endpoint.host, error);
  if (error) return false;
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

}  // namespace paceline::net
