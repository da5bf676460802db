// Ends models on a thread of its own.
//
// The last one to let go of a model may be its own generator's thread, with the end of the last
// request, and that thread cannot wait for itself.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "serve/served_model.h"

namespace paceline::serve {

/// Lifecycle: outlives all who hold a model; its destructor waits until the last one lets go, so
/// what is under way must have been cancelled before. Thread-safe.
class ModelReaper {
 public:
  ModelReaper();
  ~ModelReaper();

  std::shared_ptr<ServedModel> adopt(std::unique_ptr<ServedModel> model);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<ServedModel>> let_go_;
  std::size_t held_ = 0;
  bool is_ending_ = false;
  std::thread thread_;  ///< the last: it uses all the others
};

}  // namespace paceline::serve
