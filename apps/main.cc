// The one binary: everything is in src/cli.
#include "cli/cli.h"

int main(int argc, char** argv) { return paceline::cli::run(argc, argv); }
