// The page at /: files that are part of the program, and how browsers get them. Knows nothing of
// models; what it shows it asks for by the API's own routes and GET /fleet.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "http/exchange.h"
#include "http/router.h"

namespace paceline::page {

struct Asset {
  std::string_view path;  ///< "/" or "/assets/NAME"
  std::string_view content_type;
  std::string_view etag;     ///< with its quotes
  std::string_view bytes;    ///< as it is
  std::string_view gzipped;  ///< the same, for clients that take it
};

/// Of this program: generated at build time from src/page/assets.
std::span<const Asset> assets();

/// One for each asset. They need no key, as they hold nothing of anybody's: what the page shows is
/// behind the keys.
std::vector<http::Route> routes();

/// Pure: with the headers that keep the page to itself, gzipped where that is taken, and 304 where
/// the client has it already.
http::Response respond_with(const Asset& asset, const http::Headers& asked);

}  // namespace paceline::page
