// A place in a parsed JSON document that knows its path, so that each error names the field.
//
// Not a general JSON layer: only what the manifest's reader asks for.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace paceline::shard {

/// Points into a document that must outlive it. Every error is kInvalidArgument and reads
/// "PATH: expected WHAT, got VALUE".
class JsonField {
 public:
  JsonField(const nlohmann::json* value, std::string path);

  const std::string& path() const { return path_; }

  /// The member of an object; an error where this is no object or has no such member.
  Result<JsonField> member(std::string_view name) const;
  /// The number of items of an array, which must lie in [min, max].
  Result<std::size_t> array_size(std::size_t min, std::size_t max) const;
  /// Item `index` of an array of known size.
  JsonField item(std::size_t index) const;
  Result<std::uint64_t> integer(std::uint64_t min, std::uint64_t max) const;
  /// Valid UTF-8 of at most `max_bytes`.
  Result<std::string> text(std::size_t max_bytes) const;

  /// The underlying value; never null.
  const nlohmann::json& json() const { return *value_; }
  tl::unexpected<Error> expected(std::string_view what) const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace paceline::shard
