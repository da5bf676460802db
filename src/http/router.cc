#include "http/router.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "http/target.h"

namespace paceline::http {
namespace {

using Values = std::map<std::string, std::string>;

bool is_variable(const std::string& segment) {
  return segment.size() > 2 && segment.front() == '{';
}
bool is_rest(const std::string& segment) {
  return is_variable(segment) && segment.ends_with("...}");
}

std::string joined(std::vector<std::string>::const_iterator begin,
                   std::vector<std::string>::const_iterator end) {
  std::string text;
  for (auto it = begin; it != end; ++it) {
    if (it != begin) text += '/';
    text += *it;
  }
  return text;
}

std::optional<Values> match(const std::vector<std::string>& pattern,
                            const std::vector<std::string>& segments) {
  Values values;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const std::string& expected = pattern[i];
    if (i >= segments.size()) return {};
    if (is_rest(expected)) {
      std::string rest = joined(segments.begin() + static_cast<std::ptrdiff_t>(i), segments.end());
      if (rest.empty()) return {};
      values[expected.substr(1, expected.size() - 5)] = std::move(rest);
      return values;
    }
    if (is_variable(expected)) {
      if (segments[i].empty()) return {};
      values[expected.substr(1, expected.size() - 2)] = segments[i];
    } else if (segments[i] != expected) {
      return {};
    }
  }
  if (segments.size() != pattern.size()) return {};
  return values;
}

}  // namespace

void Router::add(Route route) {
  auto target = parse_target(route.pattern);
  PACELINE_CHECK(target.has_value() && route.handler != nullptr);
  entries_.push_back({std::move(route), std::move(target->segments)});
}

void Router::add(std::string method, std::string pattern, Handler handler, RoutePolicy policy) {
  add(Route{std::move(method), std::move(pattern), std::move(handler), std::move(policy)});
}

Router::Found Router::find(std::string_view method,
                           const std::vector<std::string>& segments) const {
  Found found;
  bool is_exact = false;
  for (const Entry& entry : entries_) {
    auto values = match(entry.segments, segments);
    if (!values) continue;
    const std::string& has = entry.route.method;
    const auto note = [&found](const char* name) {
      if (std::find(found.methods.begin(), found.methods.end(), name) == found.methods.end()) {
        found.methods.emplace_back(name);
      }
    };
    note(has.c_str());
    if (has == "GET") note("HEAD");
    const bool is_substitute = method == "HEAD" && has == "GET" && found.route == nullptr;
    if ((has == method && !is_exact) || is_substitute) {
      is_exact = has == method;
      found.route = &entry.route;
      found.values = std::move(*values);
    }
  }
  return found;
}

}  // namespace paceline::http
