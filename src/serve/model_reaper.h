// Ends models on a thread of its own.
//
// The last one to let go of a model may be its own generator's thread, with the end of the last
// request, and that thread cannot wait for itself.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "serve/served_model.h"

namespace paceline::serve {

/// Lifecycle: outlives all who hold a model; its destructor waits until the last one lets go, so
/// what is under way must have been cancelled before. Thread-safe.
class ModelReaper {
 public:
  ModelReaper();
  ~ModelReaper();

  /// `on_ended` is called on the reaper's thread once the model is gone with all it stood on.
  std::shared_ptr<ServedModel> adopt(std::unique_ptr<ServedModel> model,
                                     std::function<void()> on_ended = {});
  /// What is still under way at `when` fails with `reason`.
  void end_requests_at(const std::shared_ptr<ServedModel>& model, TimePoint when, Error reason);

 private:
  struct LetGo {
    std::unique_ptr<ServedModel> model;
    std::function<void()> on_ended;
  };
  struct Cut {
    std::weak_ptr<ServedModel> model;
    TimePoint when;
    Error reason;
  };
  void run();
  /// Those whose time has come, out of `cuts_`.
  std::vector<Cut> take_due_cuts();
  void wait(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<LetGo> let_go_;
  std::vector<Cut> cuts_;
  std::size_t held_ = 0;
  bool is_ending_ = false;
  std::thread thread_;  ///< the last: it uses all the others
};

}  // namespace paceline::serve
