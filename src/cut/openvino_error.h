// The border to OpenVINO: its exceptions, whose messages run over several lines and begin with
// source files, become errors of one line.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace paceline::cut {

/// The message without "Exception from ..." lines, in one line of at most 400 bytes and "...".
std::string one_line(const std::exception& exception);

template <typename T>
struct IsResult : std::false_type {};
template <typename T>
struct IsResult<Result<T>> : std::true_type {};

/// Calls `action` and gives what it returns, as a Result (a Result stays as it is). An exception
/// becomes "CONTEXT: the exception in one line": kResourceExhausted where memory is out, else
/// kInternal.
template <typename Action>
auto catch_openvino(std::string_view context, const Action& action) {
  using Value = std::invoke_result_t<Action>;
  using Returned = std::conditional_t<IsResult<Value>::value, Value, Result<Value>>;
  try {
    if constexpr (std::is_void_v<Value>) {
      action();
      return Returned();
    } else {
      return Returned(action());
    }
  } catch (const std::bad_alloc&) {
    return Returned(fail(ErrorCode::kResourceExhausted, "{}: out of memory", context));
  } catch (const std::exception& exception) {
    return Returned(fail(ErrorCode::kInternal, "{}: {}", context, one_line(exception)));
  }
}

}  // namespace paceline::cut
