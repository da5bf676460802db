// The command line: `paceline SUBCOMMAND`.
#pragma once

namespace paceline::cli {

/// Exit codes: 0 done; 2 what the user can mend (arguments, files, memory, a version); 1 all else.
/// Errors are one line on standard error.
int run(int argc, char** argv);

}  // namespace paceline::cli
