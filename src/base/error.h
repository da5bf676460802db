// Errors as values: one canonical code, one sentence a user can act on, context added on the way up.
//
// Not exceptions: those of OpenVINO and the standard library are converted where they are met.
// Not for our own bugs: PACELINE_CHECK (check.h) aborts on those.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace paceline {

/// Canonical codes, after gRPC's. The numbers are on the wire: never reuse one.
enum class ErrorCode : std::uint8_t {
  kUnknown = 0,  ///< also what a newer peer's unknown code becomes
  kInvalidArgument = 1,
  kNotFound = 2,
  kAlreadyExists = 3,
  kPermissionDenied = 4,
  kResourceExhausted = 5,  ///< memory, disk, KV blocks, queue places
  kFailedPrecondition = 6,
  kAborted = 7,
  kOutOfRange = 8,
  kUnimplemented = 9,
  kInternal = 10,
  kUnavailable = 11,  ///< a peer is gone or not ready
  kDataLoss = 12,     ///< bytes are damaged: a hash or a format does not fit
  kDeadlineExceeded = 13,
  kCancelled = 14,
};

/// The code's stable lower-case name, e.g. "invalid_argument".
std::string_view to_string(ErrorCode code);

/// The code for a number from the wire; kUnknown where the number is not known here.
ErrorCode error_code_from_number(std::uint32_t number);

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  /// The same error with "CONTEXT: " before its message.
  Error with_context(std::string_view context) const;

 private:
  ErrorCode code_;
  std::string message_;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// `return fail(ErrorCode::kNotFound, "{}: no such file", path);`
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error(code, fmt::format(format, std::forward<Args>(args)...)));
}

/// Passes an error on, e.g. `return fail(std::move(result).error());`
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace paceline

#define PACELINE_CONCAT_(a, b) a##b
#define PACELINE_CONCAT(a, b) PACELINE_CONCAT_(a, b)

/// Returns the error of a Status or Result expression from the enclosing function.
#define PACELINE_RETURN_IF_ERROR(expression)                                        \
  do {                                                                              \
    if (auto paceline_status = (expression); !paceline_status) {                    \
      return ::paceline::fail(std::move(paceline_status).error());                  \
    }                                                                               \
  } while (false)

/// `PACELINE_ASSIGN_OR_RETURN(const auto value, compute());`
#define PACELINE_ASSIGN_OR_RETURN(declaration, expression) \
  PACELINE_ASSIGN_OR_RETURN_(PACELINE_CONCAT(paceline_result_, __LINE__), declaration, expression)
#define PACELINE_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                       \
  if (!result) {                                                    \
    return ::paceline::fail(std::move(result).error());             \
  }                                                                 \
  declaration = std::move(*result)
