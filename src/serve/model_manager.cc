#include "serve/model_manager.h"

#include <utility>

#include "obs/log.h"

namespace paceline::serve {
namespace {

/// Of one model: more are somebody's loop.
constexpr std::size_t kMaxWaiting = 64;

Status keep(std::vector<std::function<void(const Status&)>>& dones,
            std::function<void(const Status&)>& done) {
  if (dones.size() >= kMaxWaiting) {
    return fail(ErrorCode::kUnavailable, "{} requests wait for this already", kMaxWaiting);
  }
  dones.push_back(std::exchange(done, {}));
  return {};
}

}  // namespace

ModelManager::ModelManager(ModelRegistry& registry, ModelShelf shelf, Loader loader)
    : registry_(registry), loader_(std::move(loader)), shelf_(std::move(shelf)) {
  thread_ = std::thread([this] { run(); });
}

ModelManager::~ModelManager() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
  for (const auto& source : shelf_.sources()) {
    for (const std::string& name : source->names) registry_.remove(name);
  }
}

Status ModelManager::add(ModelSource source, bool is_wanted) {
  const std::lock_guard lock(mutex_);
  PACELINE_ASSIGN_OR_RETURN(const ModelSource* added, shelf_.add(std::move(source)));
  if (is_wanted) wanted_.push_back(added);
  for (const std::string& name : added->names) {
    if (is_wanted) registry_.announce(name);
    if (!is_wanted) registry_.set_state(name, ModelState::kUnloaded);
  }
  return {};
}

Status ModelManager::load_all() {
  std::vector<const ModelSource*> wanted;
  bool is_one = false;
  {
    const std::lock_guard lock(mutex_);
    wanted = std::exchange(wanted_, {});
    is_one = shelf_.sources().size() == 1;
  }
  for (const ModelSource* source : wanted) {
    const Status loaded = load_now(*source);
    if (!loaded) return is_one ? loaded : fail(loaded.error().with_context(source->name()));
  }
  return {};
}

bool ModelManager::knows(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return shelf_.find(name) != nullptr;
}

void ModelManager::set_states(const ModelSource& source, ModelState state) {
  for (const std::string& name : source.names) registry_.set_state(name, state);
}

/// The states change with the mutex held, so that each request to load or unload meets one of them.
Status ModelManager::load_now(const ModelSource& source) {
  // Two at a time would both find the memory free.
  const std::lock_guard one_at_a_time(load_mutex_);
  auto loaded = loader_(source);
  Dones dones;
  Status outcome;
  {
    const std::lock_guard lock(mutex_);
    if (loaded) {
      const auto model = reaper_.adopt(*std::move(loaded), [this, &source] { on_ended(source); });
      for (const std::string& name : source.names) registry_.set_ready(name, model);
    } else {
      obs::log(obs::LogLevel::kError, "a model could not be loaded",
               {{"model", source.name()}, {"reason", loaded.error().message()}});
      set_states(source, ModelState::kFailed);
      outcome = fail(std::move(loaded).error());
    }
    dones = std::exchange(waiting_[&source].loads, {});
  }
  for (const Done& done : dones) done(outcome);
  return outcome;
}

void ModelManager::on_ended(const ModelSource& source) {
  Dones dones;
  {
    const std::lock_guard lock(mutex_);
    set_states(source, ModelState::kUnloaded);
    dones = std::exchange(waiting_[&source].unloads, {});
  }
  for (const Done& done : dones) done({});
}

void ModelManager::load(const std::string& name, const std::string& path, Done done) {
  const Status started = start_load(name, path, done);
  if (done) done(started);
}

Status ModelManager::start_load(const std::string& name, const std::string& path, Done& done) {
  const std::lock_guard lock(mutex_);
  PACELINE_ASSIGN_OR_RETURN(const ModelSource* source, shelf_.find_or_add(name, path));
  const auto state = registry_.state(source->name()).value_or(ModelState::kUnloaded);
  if (state == ModelState::kReady) {
    if (registry_.find(source->name())) return {};
    return fail(ErrorCode::kFailedPrecondition, "its chain has failed; unload it first");
  }
  if (state == ModelState::kUnloading) {
    return fail(ErrorCode::kAlreadyExists, "is just being unloaded");
  }
  PACELINE_RETURN_IF_ERROR(keep(waiting_[source].loads, done));
  if (state == ModelState::kLoading) return {};
  set_states(*source, ModelState::kLoading);
  jobs_.push_back(source);
  changed_.notify_all();
  return {};
}

void ModelManager::unload(const std::string& name, Duration drain, Done done) {
  std::shared_ptr<ServedModel> last;  // let go without the mutex
  const Status started = start_unload(name, drain, done, last);
  last.reset();
  if (done) done(started);
}

Status ModelManager::start_unload(const std::string& name, Duration drain, Done& done,
                                  std::shared_ptr<ServedModel>& last) {
  const std::lock_guard lock(mutex_);
  const ModelSource* source = shelf_.find(name);
  if (source == nullptr) {
    return fail(ErrorCode::kNotFound, "the server knows no model of this name");
  }
  const auto state = registry_.state(source->name()).value_or(ModelState::kUnloaded);
  if (state == ModelState::kLoading) {
    return fail(ErrorCode::kAlreadyExists, "is just being loaded");
  }
  if (state == ModelState::kFailed) set_states(*source, ModelState::kUnloaded);
  if (state == ModelState::kFailed || state == ModelState::kUnloaded) return {};
  PACELINE_RETURN_IF_ERROR(keep(waiting_[source].unloads, done));
  if (state == ModelState::kUnloading) return {};
  for (const std::string& other : source->names) last = registry_.take(other);
  reaper_.end_requests_at(last, std::chrono::steady_clock::now() + drain,
                          Error(ErrorCode::kUnavailable, source->name() + " was unloaded"));
  return {};
}

void ModelManager::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_ending_ || !jobs_.empty(); });
    if (is_ending_) return;
    const ModelSource* source = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    (void)load_now(*source);
    lock.lock();
  }
}

}  // namespace paceline::serve
