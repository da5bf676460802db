// What is done for the routes of /v1/files and /v1/batches.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "batch/batch_runner.h"
#include "batch/batch_store.h"
#include "http/router.h"

namespace paceline::batch {

/// Thread-safe. The store and the runner must outlive it, and it the server that calls it.
class BatchHandlers {
 public:
  struct Options {
    std::function<std::int64_t()> now;  ///< Unix seconds
    std::size_t max_file_bytes = std::size_t{200} << 20;
  };
  /// `wake` is called when there is something new to run.
  BatchHandlers(BatchStore& store, std::function<void()> wake, Options options)
      : store_(store), wake_(std::move(wake)), options_(std::move(options)) {}

  std::vector<http::Route> routes();

  void upload(http::Exchange& exchange);
  void list_files(http::Exchange& exchange);
  void show_file(http::Exchange& exchange);
  void give_content(http::Exchange& exchange);
  void delete_file(http::Exchange& exchange);
  void create_batch(http::Exchange& exchange);
  void list_batches(http::Exchange& exchange);
  void show_batch(http::Exchange& exchange);
  void cancel_batch(http::Exchange& exchange);

 private:
  api::Parsed<BatchRequest> read_batch(const http::Request& request) const;

  BatchStore& store_;
  const std::function<void()> wake_;
  const Options options_;
};

}  // namespace paceline::batch
