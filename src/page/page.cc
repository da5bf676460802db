#include "page/page.h"

#include <algorithm>
#include <memory>
#include <string>

namespace paceline::page {
namespace {

/// Nothing from elsewhere, nothing inline, no strings that become code, and in nobody's frame.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

std::string_view header(const http::Headers& headers, const std::string& name) {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Calls `take` with each item of a list as headers have them, until it says true.
template <typename Take>
bool any_item(std::string_view list, Take take) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (take(trimmed(list.substr(0, comma)))) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

bool takes_gzip(const http::Headers& asked) {
  return any_item(header(asked, "accept-encoding"), [](std::string_view item) {
    const std::size_t semicolon = std::min(item.find(';'), item.size());
    if (trimmed(item.substr(0, semicolon)) != "gzip") return false;
    // "gzip;q=0" is a refusal; any other quality will do.
    const std::string_view quality = trimmed(item.substr(std::min(semicolon + 1, item.size())));
    return quality.find_first_not_of("q=0.") != std::string_view::npos || quality.empty();
  });
}

bool has_it(const http::Headers& asked, std::string_view etag) {
  return any_item(header(asked, "if-none-match"), [etag](std::string_view item) {
    if (item.starts_with("W/")) item.remove_prefix(2);
    return item == etag || item == "*";
  });
}

}  // namespace

http::Response respond_with(const Asset& asset, const http::Headers& asked) {
  http::Response response;
  response.content_type = asset.content_type;
  response.headers["Content-Security-Policy"] = kPolicy;
  response.headers["X-Content-Type-Options"] = "nosniff";
  response.headers["X-Frame-Options"] = "DENY";
  response.headers["Referrer-Policy"] = "no-referrer";
  response.headers["Cross-Origin-Opener-Policy"] = "same-origin";
  response.headers["Cross-Origin-Resource-Policy"] = "same-origin";
  response.headers["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()";
  // Asked for anew each time, so that a new version of the program shows at once.
  response.headers["Cache-Control"] = "no-cache";
  response.headers["ETag"] = asset.etag;
  response.headers["Vary"] = "Accept-Encoding";
  if (has_it(asked, asset.etag)) {
    response.status = 304;
  } else if (takes_gzip(asked)) {
    response.headers["Content-Encoding"] = "gzip";
    response.body = asset.gzipped;
  } else {
    response.body = asset.bytes;
  }
  return response;
}

std::vector<http::Route> routes() {
  http::RoutePolicy open;
  open.needs_key = false;
  open.content_type = "";
  std::vector<http::Route> routes;
  for (const Asset& asset : assets()) {
    const auto show = [&asset](const std::shared_ptr<http::Exchange>& exchange) {
      exchange->respond(respond_with(asset, exchange->request().headers));
    };
    routes.push_back({"GET", std::string(asset.path), show, open});
  }
  return routes;
}

}  // namespace paceline::page
