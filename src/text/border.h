// Owners of what the Rust crate hands out, and its statuses as Errors.
//
// Private to this folder; the only includer of paceline_text.h beside the .cc files here.
#pragma once

#include <paceline_text.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace paceline::text {

/// Receives a PacelineText and frees it.
class OwnedText {
 public:
  OwnedText() = default;
  OwnedText(const OwnedText&) = delete;
  OwnedText& operator=(const OwnedText&) = delete;
  ~OwnedText() { paceline_text_free(text_); }

  PacelineText* receive() { return &text_; }
  std::string_view view() const { return {text_.data, text_.size}; }

 private:
  PacelineText text_ = {};
};

/// Receives PacelineIds and frees them.
class OwnedIds {
 public:
  OwnedIds() = default;
  OwnedIds(const OwnedIds&) = delete;
  OwnedIds& operator=(const OwnedIds&) = delete;
  ~OwnedIds() { paceline_ids_free(ids_); }

  PacelineIds* receive() { return &ids_; }
  std::size_t size() const { return ids_.size; }
  const std::uint32_t* begin() const { return ids_.data; }
  const std::uint32_t* end() const { return ids_.data + ids_.size; }

 private:
  PacelineIds ids_ = {};
};

/// kInvalidArgument where the input is at fault, kInternal after a panic.
inline Status status_from(std::int32_t status, const OwnedText& error) {
  if (status == PACELINE_TEXT_OK) return {};
  const ErrorCode code =
      status == PACELINE_TEXT_INVALID ? ErrorCode::kInvalidArgument : ErrorCode::kInternal;
  return fail(code, "{}", error.view());
}

}  // namespace paceline::text
