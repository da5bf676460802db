#include "cli/batch_service.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "system/user_directories.h"
#include "system/wall_clock.h"

namespace paceline::cli {
std::filesystem::path default_state_directory() {
  const std::filesystem::path state = system::user_directory("XDG_STATE_HOME", ".local/state");
  return state.empty() ? state : state / "paceline";
}

Result<std::unique_ptr<BatchService>> BatchService::open(const std::string& state_directory) {
  const bool is_default = state_directory.empty();
  const std::filesystem::path directory =
      is_default ? default_state_directory() : std::filesystem::path(state_directory);
  auto store = directory.empty()
                   ? fail(ErrorCode::kNotFound, "neither XDG_STATE_HOME nor HOME is set")
                   : batch::BatchStore::open(directory, {});
  if (store) return std::unique_ptr<BatchService>(new BatchService(*std::move(store)));
  if (!is_default) return fail(store.error().with_context("--state-dir"));
  spdlog::warn("no files and batches here ({}); give this server a --state-dir of its own",
               store.error().message());
  return nullptr;
}

BatchService::BatchService(std::unique_ptr<batch::BatchStore> store)
    : store_(std::move(store)), handlers_(*store_, [this] { wake(); }, {system::unix_seconds}) {}

void BatchService::wake() {
  const std::lock_guard lock(mutex_);
  if (runner_) runner_->wake();
}

void BatchService::start(batch::Executor execute) {
  batch::RunnerOptions options;
  options.now = system::unix_seconds;
  const std::lock_guard lock(mutex_);
  runner_ = std::make_unique<batch::BatchRunner>(*store_, std::move(execute), std::move(options));
}

void BatchService::stop() {
  const std::lock_guard lock(mutex_);
  runner_.reset();
}

}  // namespace paceline::cli
