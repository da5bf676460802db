// Files and batches of `paceline serve`: where they are kept, and who answers their lines.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "batch/batch_handlers.h"
#include "batch/batch_runner.h"
#include "batch/batch_store.h"
#include "http/router.h"

namespace paceline::cli {

/// $XDG_STATE_HOME/paceline, else ~/.local/state/paceline; empty where neither is set.
std::filesystem::path default_state_directory();

/// Lifecycle: open() -> routes() for the server -> start() once there is a model -> stop() before
/// the end, which leaves what is under way to the next start. Thread-safe.
class BatchService {
 public:
  /// Of `state_directory`, or of the default one where that is empty; the default one may be in use
  /// by another server: then there is a warning and no service.
  static Result<std::unique_ptr<BatchService>> open(const std::string& state_directory);
  BatchService(const BatchService&) = delete;
  BatchService& operator=(const BatchService&) = delete;

  std::vector<http::Route> routes() { return handlers_.routes(); }
  void start(batch::Executor execute);
  void stop();

 private:
  explicit BatchService(std::unique_ptr<batch::BatchStore> store);
  void wake();

  const std::unique_ptr<batch::BatchStore> store_;
  batch::BatchHandlers handlers_;
  std::mutex mutex_;
  std::unique_ptr<batch::BatchRunner> runner_;
};

}  // namespace paceline::cli
