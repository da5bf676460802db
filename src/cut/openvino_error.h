// One line from an OpenVINO exception, whose messages run over several and begin with source files.
#pragma once

#include <exception>
#include <string>

namespace paceline::cut {

/// The message without "Exception from ..." lines, in one line of bounded length.
std::string one_line(const std::exception& exception);

}  // namespace paceline::cut
