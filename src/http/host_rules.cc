#include "http/host_rules.h"

#include <algorithm>
#include <utility>

#include "http/ascii.h"

namespace paceline::http {
namespace {

bool is_port(std::string_view text) {
  return text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_name_character(char c) {
  const char lower = lower_case(c);
  return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_';
}

/// An address cannot be rebound: only a name is looked up. What is no name and no IPv6 address in
/// brackets was refused before, so digits and dots are enough.
bool is_address(std::string_view name) {
  return name.front() == '[' || std::all_of(name.begin(), name.end(), [](char c) {
           return c == '.' || (c >= '0' && c <= '9');
         });
}

bool is_in_brackets(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == ':' || c == '.' || (c >= '0' && c <= '9') ||
           (lower_case(c) >= 'a' && lower_case(c) <= 'f');
  });
}

}  // namespace

std::string host_name(std::string_view authority) {
  std::string_view name;
  std::string_view rest;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos || !is_in_brackets(authority.substr(1, end - 1))) return {};
    name = authority.substr(0, end + 1);
    rest = authority.substr(end + 1);
  } else {
    const std::size_t end = std::min(authority.find(':'), authority.size());
    name = authority.substr(0, end);
    rest = authority.substr(end);
    if (!std::all_of(name.begin(), name.end(), is_name_character)) return {};
    if (name.ends_with('.')) name.remove_suffix(1);  // the root's dot
  }
  if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return {};
  return lower_case(name);
}

HostRules::HostRules(Options options)
    : options_([&options] {
        for (std::string& host : options.allowed_hosts) host = lower_case(host);
        for (std::string& origin : options.cors_origins) origin = lower_case(origin);
        return std::move(options);
      }()) {}

bool HostRules::is_known_name(const std::string& name) const {
  if (name == "localhost" || name == "127.0.0.1" || name == "[::1]") return true;
  if (name == options_.address || name == "[" + options_.address + "]") return true;
  const auto& hosts = options_.allowed_hosts;
  return std::find(hosts.begin(), hosts.end(), name) != hosts.end();
}

Status HostRules::check_host(std::string_view authority) const {
  const std::string name = host_name(authority);
  if (name.empty()) return fail(ErrorCode::kInvalidArgument, "Host: expected NAME or NAME:PORT");
  if (is_known_name(name)) return {};
  if (!options_.is_loopback && (options_.allowed_hosts.empty() || is_address(name))) return {};
  return fail(ErrorCode::kPermissionDenied,
              "Host: this server does not answer to the name '{}'; it can be allowed when the "
              "server is started",
              name);
}

Status HostRules::check_origin(std::string_view origin, std::string_view authority) const {
  if (!cors_origin(origin).empty()) return {};
  const std::size_t scheme = origin.find("://");
  if (scheme != std::string_view::npos) {
    const std::string_view page = origin.substr(scheme + 3);
    const std::string name = host_name(page);
    const bool is_own = !authority.empty() && equal_ignoring_case(page, authority);
    if (!name.empty() && (is_own || (options_.is_loopback && is_known_name(name)))) return {};
  }
  return fail(ErrorCode::kPermissionDenied,
              "Origin: pages of other sites may not use this server; their origins can be allowed "
              "when the server is started");
}

std::string HostRules::cors_origin(std::string_view origin) const {
  for (const std::string& allowed : options_.cors_origins) {
    if (allowed == "*") return "*";
    if (equal_ignoring_case(allowed, origin)) return std::string(origin);
  }
  return {};
}

}  // namespace paceline::http
