// Loads and unloads models while a server runs.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/api_error.h"
#include "base/clock.h"
#include "base/error.h"
#include "serve/model_reaper.h"
#include "serve/model_registry.h"
#include "serve/model_shelf.h"

namespace paceline::serve {

/// Lifecycle: made -> add() what is named at the start -> load_all() -> routes -> destructor, which
/// waits for a load under way and for requests that still have a model, so these must have been
/// cancelled before. The registry must outlive it; no one else changes the states of its models.
/// Thread-safe.
class ModelManager {
 public:
  /// Takes as long as it takes; one at a time.
  using Loader = std::function<Result<std::unique_ptr<ServedModel>>(const ModelSource& source)>;
  /// The outcome, from any thread; at once where there is nothing to do.
  using Done = std::function<void(const Status& outcome)>;

  ModelManager(ModelRegistry& registry, ModelShelf shelf, Loader loader);
  ~ModelManager();
  ModelManager(const ModelManager&) = delete;
  ModelManager& operator=(const ModelManager&) = delete;

  /// `is_wanted`: load_all() loads it; else it is listed and not loaded. Errors as ModelShelf's.
  Status add(ModelSource source, bool is_wanted);
  /// In their order, on this thread; the first that cannot be loaded ends it, and is named.
  Status load_all();

  /// `path` as in ModelShelf::find_or_add. kAlreadyExists: is just being unloaded.
  void load(const std::string& name, const std::string& path, Done done);
  /// With all its names. No request finds it any more; those under way may take `drain` from now
  /// on, then they fail. Done once its memory is free. kAlreadyExists: is just being loaded.
  void unload(const std::string& name, Duration drain, Done done);

  bool knows(const std::string& name) const;

 private:
  using Dones = std::vector<Done>;
  struct Waiting {
    Dones loads;
    Dones unloads;
  };
  /// What cannot be done, before anything is; nothing: it is under way.
  Status start_load(const std::string& name, const std::string& path, Done& done);
  Status start_unload(const std::string& name, Duration drain, Done& done,
                      std::shared_ptr<ServedModel>& last);
  Status load_now(const ModelSource& source);
  void on_ended(const ModelSource& source);
  void set_states(const ModelSource& source, ModelState state);
  void run();

  ModelRegistry& registry_;
  const Loader loader_;
  std::mutex load_mutex_;  ///< of loader_; locked before mutex_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  ModelShelf shelf_;
  std::vector<const ModelSource*> wanted_;
  std::deque<const ModelSource*> jobs_;  ///< each source once at most
  std::map<const ModelSource*, Waiting> waiting_;
  bool is_ending_ = false;
  ModelReaper reaper_;  ///< calls on_ended()
  std::thread thread_;  ///< the last: it uses all the others
};

}  // namespace paceline::serve
