#include "cli/cli.h"

#include <fmt/core.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace paceline::cli {
namespace {

constexpr int kUserError = 2;
constexpr int kOtherError = 1;

int exit_code(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kUnknown:
    case ErrorCode::kInternal:
    case ErrorCode::kUnavailable:
    case ErrorCode::kAborted:
    case ErrorCode::kCancelled:
    case ErrorCode::kDeadlineExceeded:
      return kOtherError;
    default:
      return kUserError;
  }
}

/// A core has prompts, answers and keys in it. Linux writes none where the limit is 1, to no file
/// and to no program either (core(5)); workers that are started here inherit it.
void forbid_core_dumps() {
  if (std::getenv("PACELINE_CORE_DUMPS") != nullptr) return;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(1, limit.rlim_max);
  ::setrlimit(RLIMIT_CORE, &limit);
}

/// From the command line to the command's end.
Status run(const std::vector<std::string>& arguments) {
  PACELINE_ASSIGN_OR_RETURN(const auto reading, read_command_line(arguments));
  if (!reading) return {};
  return run_command(*reading);
}

}  // namespace

int run(int argc, char** argv) {
  // A file that grows beyond the user's limit is an error like a full disk, not a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  forbid_core_dumps();
  // Standard output belongs to the answer; a worker sets its own level.
  spdlog::set_default_logger(spdlog::stderr_logger_mt("paceline"));
  spdlog::set_level(spdlog::level::warn);
  const Status done = run({argv + 1, argv + argc});
  if (done) return 0;
  fmt::print(stderr, "paceline: {}\n", done.error().message());
  return exit_code(done.error());
}

}  // namespace paceline::cli
