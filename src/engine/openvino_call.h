// Where OpenVINO's exceptions become errors.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "cut/openvino_error.h"

namespace paceline::engine {

/// Runs `function` and gives its value, or an Error of "CONTEXT: the exception in one line".
template <typename Function>
auto openvino_call(std::string_view context, Function&& function)
    -> Result<decltype(std::forward<Function>(function)())> {
  using Value = decltype(std::forward<Function>(function)());
  try {
    if constexpr (std::is_void_v<Value>) {
      std::forward<Function>(function)();
      return {};
    } else {
      return std::forward<Function>(function)();
    }
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kResourceExhausted, "{}: out of memory", context);
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "{}: {}", context, cut::one_line(exception));
  }
}

}  // namespace paceline::engine
