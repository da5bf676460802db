#include "cli/environment.h"

#include <cctype>

namespace paceline::cli {

std::string environment_variable(const std::string& flag) {
  std::string name = "PACELINE_";
  for (const char byte : flag) {
    name += byte == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(byte)));
  }
  return name;
}

void name_environment_variables(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option == command.get_help_ptr()) continue;
    option->envname(environment_variable(option->get_lnames().front()));
  }
}

}  // namespace paceline::cli
