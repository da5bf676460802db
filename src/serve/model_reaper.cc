#include "serve/model_reaper.h"

#include <algorithm>
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

std::shared_ptr<ServedModel> ModelReaper::adopt(std::unique_ptr<ServedModel> model,
                                                std::function<void()> on_ended) {
  {
    const std::lock_guard lock(mutex_);
    ++held_;
  }
  return {model.release(), [this, on_ended = std::move(on_ended)](ServedModel* last) {
            const std::lock_guard lock(mutex_);
            let_go_.push_back({std::unique_ptr<ServedModel>(last), on_ended});
            --held_;
            changed_.notify_all();
          }};
}

void ModelReaper::end_requests_at(const std::shared_ptr<ServedModel>& model, TimePoint when,
                                  Error reason) {
  const std::lock_guard lock(mutex_);
  cuts_.push_back({model, when, std::move(reason)});
  changed_.notify_all();
}

std::vector<ModelReaper::Cut> ModelReaper::take_due_cuts() {
  const TimePoint now = std::chrono::steady_clock::now();
  const auto first_due = std::stable_partition(cuts_.begin(), cuts_.end(), [now](const Cut& cut) {
    return cut.when > now && !cut.model.expired();
  });
  std::vector<Cut> due(std::make_move_iterator(first_due), std::make_move_iterator(cuts_.end()));
  cuts_.erase(first_due, cuts_.end());
  return due;
}

void ModelReaper::wait(std::unique_lock<std::mutex>& lock) {
  const auto is_sooner = [](const Cut& one, const Cut& other) { return one.when < other.when; };
  const auto next = std::min_element(cuts_.begin(), cuts_.end(), is_sooner);
  if (next == cuts_.end()) {
    changed_.wait(lock);
  } else {
    const TimePoint when = next->when;
    changed_.wait_until(lock, when);
  }
}

void ModelReaper::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    auto ended = std::exchange(let_go_, {});
    auto due = take_due_cuts();
    if (ended.empty() && due.empty()) {
      if (is_ending_ && held_ == 0) return;
      wait(lock);
      continue;
    }
    lock.unlock();
    for (const Cut& cut : due) {
      if (const auto model = cut.model.lock()) model->end_all(cut.reason);
    }
    for (LetGo& last : ended) {
      last.model.reset();
      if (last.on_ended) last.on_ended();
    }
    lock.lock();
  }
}

}  // namespace paceline::serve
