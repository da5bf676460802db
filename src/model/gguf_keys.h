// Look-ups of one architecture's GGUF keys that are optional or bounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/foreign_text.h"
#include "model/gguf.h"

namespace paceline::model {

/// Views a file that must outlive it; keys are given without the architecture's prefix.
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  const GgufFile& file() const { return file_; }
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return file_.has(full(key)); }

  Result<std::uint32_t> size(std::string_view key, std::uint32_t most) const;  ///< 1 to `most`
  Result<std::uint32_t> size_or(std::string_view key, std::uint32_t most,
                                std::uint32_t otherwise) const;
  /// The same where 0 says none, as a missing key does.
  Result<std::uint32_t> size_or_none(std::string_view key, std::uint32_t most) const;
  Result<float> positive(std::string_view key) const;
  Result<float> positive_or(std::string_view key, float otherwise) const;
  /// The same where 0 says nothing, as a missing key does.
  Result<float> nonzero_or(std::string_view key, float otherwise) const;

  /// "FILE: metadata "KEY": is VALUE, expected WHAT".
  template <typename Value>
  [[nodiscard]] tl::unexpected<Error> wrong(std::string_view key, const Value& value,
                                            std::string_view expected,
                                            ErrorCode code = ErrorCode::kDataLoss) const {
    return fail(code, "{}: metadata {}: is {}, expected {}", file_.name(), in_quotes(full(key)),
                value, expected);
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

}  // namespace paceline::model
