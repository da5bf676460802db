// The border to OpenVINO: its exceptions become errors.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace paceline::compiler {

/// `what` as one line of at most 300 bytes: OpenVINO's messages have several.
std::string one_line(std::string_view what);

/// Calls `action`; an exception becomes kInternal "CONTEXT: ...".
template <typename Action>
auto catch_openvino(std::string_view context, const Action& action)
    -> Result<std::invoke_result_t<Action>> {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Action>>) {
      action();
      return {};
    } else {
      return action();
    }
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "{}: {}", context, one_line(exception.what()));
  }
}

}  // namespace paceline::compiler
