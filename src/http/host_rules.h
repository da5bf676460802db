// By which names and from which pages a server may be asked: against pages of other sites that
// reach it through the user's browser (DNS rebinding, cross-site requests). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace paceline::http {

/// "example.org:8000" -> "example.org", "[::1]:80" -> "[::1]", in lower case; empty where it is
/// none.
std::string host_name(std::string_view authority);

class HostRules {
 public:
  struct Options {
    std::string address{};  ///< that the server is bound to
    bool is_loopback = true;
    std::vector<std::string> allowed_hosts{};  ///< names without ports
    std::vector<std::string> cors_origins{};   ///< "https://page.example", or "*"
  };
  explicit HostRules(Options options);

  /// On loopback: localhost, 127.0.0.1, [::1], the bound address and the configured names, with any
  /// port. Elsewhere: any address, and where names are configured those alone.
  Status check_host(std::string_view authority) const;

  /// Of a browser's page: one that check_host() would take on loopback, the server's own
  /// (`authority`) elsewhere, or one of the CORS origins.
  Status check_origin(std::string_view origin, std::string_view authority) const;

  /// For Access-Control-Allow-Origin; empty where pages of that origin may not read answers.
  std::string cors_origin(std::string_view origin) const;

 private:
  bool is_known_name(const std::string& name) const;
  const Options options_;
};

}  // namespace paceline::http
