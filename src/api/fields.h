// Fields of a request's JSON object, read one by one; the first that is not as expected is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"

namespace paceline::api {

/// In the order that the client wrote: templates show tools as they come.
using Json = nlohmann::ordered_json;

/// A request's body: an object within bounds of depth and size. 400 where it is not.
Parsed<Json> parse_body(std::string_view body);

/// A field that is null counts as one that is not there. After the first problem, reading goes on
/// and finds nothing more to say: look at the problem at the end. Thread-compatible.
class Fields {
 public:
  /// `object` and `problem` must outlive it. Names in messages begin with `prefix`.
  Fields(const Json& object, std::optional<ApiError>& problem, std::string prefix = "")
      : object_(object), problem_(problem), prefix_(std::move(prefix)) {}

  /// Of an object inside this one; problems are kept in the same place.
  Fields inside(const Json& object, std::string prefix) const {
    return Fields(object, problem_, prefix_ + std::move(prefix));
  }
  bool has_problem() const { return problem_.has_value(); }

  bool has(const char* name) const { return find(name) != nullptr; }
  /// nullptr where it is not there or null.
  const Json* find(const char* name) const;

  std::optional<bool> boolean(const char* name);
  /// Finite, low to high.
  std::optional<double> number(const char* name, double low, double high);
  /// Also one that is written 5.0.
  std::optional<std::int64_t> integer(const char* name, std::int64_t low, std::int64_t high);
  std::optional<std::string> text(const char* name, std::size_t max_bytes = std::size_t{1} << 30);
  std::optional<std::string> one_of(const char* name, std::initializer_list<const char*> names);
  const Json* array(const char* name, std::size_t max_items);
  const Json* object(const char* name);

  void require(const char* name);
  /// Keep the first problem only.
  void refuse(const char* name, std::string message);
  void refuse_unsupported(const char* name, std::string_view why);
  /// Of an element, e.g. "messages[2].role".
  std::string path(const char* name) const { return prefix_ + name; }

 private:
  void keep(ApiError error);

  const Json& object_;
  std::optional<ApiError>& problem_;
  std::string prefix_;
};

}  // namespace paceline::api
