#include "serve/model_reaper.h"

#include <utility>

namespace paceline::serve {

ModelReaper::ModelReaper() : thread_([this] { run(); }) {}

ModelReaper::~ModelReaper() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::shared_ptr<ServedModel> ModelReaper::adopt(std::unique_ptr<ServedModel> model) {
  {
    const std::lock_guard lock(mutex_);
    ++held_;
  }
  return {model.release(), [this](ServedModel* last) {
            const std::lock_guard lock(mutex_);
            let_go_.emplace_back(last);
            --held_;
            changed_.notify_all();
          }};
}

void ModelReaper::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !let_go_.empty() || (is_ending_ && held_ == 0); });
    if (let_go_.empty()) return;
    auto ended = std::exchange(let_go_, {});
    lock.unlock();
    ended.clear();
    lock.lock();
  }
}

}  // namespace paceline::serve
