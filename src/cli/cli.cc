#include "cli/cli.h"

#include <fmt/core.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>

#include "base/version.h"
#include "cli/command.h"

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

}  // namespace

int run(int argc, char** argv) {
  // A file that grows beyond the user's limit is an error like a full disk, not a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  // Standard output belongs to the answer; a worker sets its own level.
  spdlog::set_default_logger(spdlog::stderr_logger_mt("paceline"));
  spdlog::set_level(spdlog::level::warn);
  CLI::App app("Paceline runs one large language model over several ordinary PCs.", "paceline");
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  Status done;
  add_batch_command(app, done);
  add_compile_command(app, done);
  add_inspect_command(app, done);
  add_verify_command(app, done);
  add_shard_command(app, done);
  add_precompile_command(app, done);
  add_generate_command(app, done);
  add_chat_command(app, done);
  add_serve_command(app, done);
  add_bench_command(app, done);
  add_worker_command(app, done);
  add_doctor_command(app, done);
  add_relay_command(app, done);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "paceline: {}; see paceline --help\n", error.what());
    return kUserError;
  }
  if (done) return 0;
  fmt::print(stderr, "paceline: {}\n", done.error().message());
  return exit_code(done.error());
}

}  // namespace paceline::cli
