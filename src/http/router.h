// Which handler a request goes to. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "http/exchange.h"

namespace paceline::http {

struct RoutePolicy {
  bool needs_key = true;  ///< where the server has keys
  /// A body's media type; empty: any.
  std::string content_type = "application/json";
  std::size_t max_body_bytes = 0;  ///< 0: the server's
};

struct Route {
  std::string method;
  /// "/v1/models/{name}": {name} is one segment, {name...} as the last one the whole rest, since
  /// names of models have slashes.
  std::string pattern;
  Handler handler;
  RoutePolicy policy = {};
};

/// Thread-compatible; of several routes that fit, the first one added is taken.
class Router {
 public:
  void add(Route route);
  void add(std::string method, std::string pattern, Handler handler, RoutePolicy policy = {});

  struct Found {
    const Route* route = nullptr;  ///< null where the path, or the method for it, is not there
    std::map<std::string, std::string> values;
    std::vector<std::string> methods;  ///< that the path has; empty: unknown path
  };
  /// HEAD is answered by the route of GET where it has none of its own.
  Found find(std::string_view method, const std::vector<std::string>& segments) const;

 private:
  struct Entry {
    Route route;
    std::vector<std::string> segments;  ///< of the pattern
  };
  std::vector<Entry> entries_;
};

}  // namespace paceline::http
