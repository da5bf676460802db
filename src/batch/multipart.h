// Bodies of multipart/form-data, as forms upload files (RFC 7578). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace paceline::batch {

struct FormPart {
  std::string name = {};
  std::string filename = {};      ///< empty where the part is no file
  std::string_view content = {};  ///< inside the body
};

/// Parts in their order, at most 32. `content_type` is the header with the boundary. Errors say
/// what was expected.
Result<std::vector<FormPart>> read_form(std::string_view content_type, std::string_view body);

}  // namespace paceline::batch
