#include "coordinator/local_workers.h"

#include <utility>

namespace paceline::coordinator {
namespace {

constexpr auto kStartTimeout = std::chrono::seconds(30);

}  // namespace

Result<LocalWorkers> LocalWorkers::start(const std::filesystem::path& package,
                                         std::uint32_t count) {
  PACELINE_ASSIGN_OR_RETURN(const std::string program, system::own_program_path());
  LocalWorkers workers;
  for (std::uint32_t index = 0; index < count; ++index) {
    // Their warnings come back as errors of this side: no need to say them twice.
    PACELINE_ASSIGN_OR_RETURN(
        auto process,
        system::ChildProcess::spawn({program, "worker", "--listen", "127.0.0.1:0", "--package",
                                     package.string(), "--log-level", "error"}));
    workers.processes_.push_back(std::move(process));
  }
  const auto deadline = Deadline::after(kStartTimeout);
  for (system::ChildProcess& process : workers.processes_) {
    auto line = process.read_line(deadline);
    if (!line) return fail(line.error().with_context("starting a local worker"));
    if (!line->starts_with(kListeningPrefix)) {
      return fail(ErrorCode::kInternal, "a local worker printed {} instead of its address", *line);
    }
    workers.addresses_.push_back(line->substr(sizeof(kListeningPrefix) - 1));
  }
  return workers;
}

}  // namespace paceline::coordinator
