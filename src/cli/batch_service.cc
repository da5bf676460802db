#include "cli/batch_service.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <utility>

namespace paceline::cli {
namespace {

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::filesystem::path default_state_directory() {
  const char* state = std::getenv("XDG_STATE_HOME");
  // As the specification has it, one that is not absolute counts as not set.
  if (state != nullptr && std::filesystem::path(state).is_absolute()) {
    return std::filesystem::path(state) / "paceline";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return std::filesystem::path(home) / ".local/state/paceline";
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
    : store_(std::move(store)), handlers_(*store_, [this] { wake(); }, {unix_seconds}) {}

void BatchService::wake() {
  const std::lock_guard lock(mutex_);
  if (runner_) runner_->wake();
}

void BatchService::start(batch::Executor execute) {
  batch::RunnerOptions options;
  options.now = unix_seconds;
  const std::lock_guard lock(mutex_);
  runner_ = std::make_unique<batch::BatchRunner>(*store_, std::move(execute), std::move(options));
}

void BatchService::stop() {
  const std::lock_guard lock(mutex_);
  runner_.reset();
}

}  // namespace paceline::cli
