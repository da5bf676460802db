// The models that a server has, by the names that requests use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "api/responses.h"
#include "serve/served_model.h"

namespace paceline::serve {

enum class ModelState {
  kLoading,
  kReady,      ///< or its chain has failed since
  kUnloading,  ///< requests under way still have it
  kUnloaded,
  kFailed,  ///< could not be loaded
};

/// As clients see it, e.g. "ready".
std::string_view to_string(ModelState state);

/// A model may have several names; the first one of all is the default. A model in use lives on
/// after it was taken away, until its last request lets it go. Thread-safe.
class ModelRegistry {
 public:
  struct Found {
    std::string name;  ///< that answers call it by
    std::shared_ptr<ServedModel> model;
  };

  /// A model that the server is to have from its start: until set_ready(), requests for it get 503,
  /// and the server is not healthy.
  void announce(const std::string& name);
  /// In any state without a model; a name that is not known becomes so.
  void set_state(const std::string& name, ModelState state);
  void set_ready(const std::string& name, std::shared_ptr<ServedModel> model);
  /// Unloading from now on. The model, or nullptr.
  std::shared_ptr<ServedModel> take(const std::string& name);
  void remove(const std::string& name);

  /// An empty name is the default. Unknown: 404; not loaded, or its chain has failed: 503.
  api::Parsed<Found> find(const std::string& name) const;
  /// Nothing: unknown.
  std::optional<ModelState> state(const std::string& name) const;

  /// All, in the order of announcement.
  std::vector<api::ModelCard> cards() const;
  /// Those that are ready, each once.
  std::vector<std::shared_ptr<ServedModel>> models() const;
  struct Listed {
    std::vector<std::string> names;            ///< one at least
    ModelState state = ModelState::kUnloaded;  ///< kFailed also where its chain has failed since
    std::shared_ptr<ServedModel> model;        ///< null: not ready
  };
  /// Each model once, with all its names; those that are not ready, too.
  std::vector<Listed> listed() const;
  /// One is ready at least, none has failed, and all are there that were announced.
  bool is_healthy() const;

 private:
  struct Entry {
    std::string name;
    ModelState state = ModelState::kUnloaded;
    bool is_awaited = false;             ///< announced, and never ready since
    std::shared_ptr<ServedModel> model;  ///< while ready

    /// As clients see it: of one whose chain has failed, kFailed.
    ModelState shown_state() const;
  };
  Entry& entry(const std::string& name);
  const Entry* find_entry(const std::string& name) const;

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace paceline::serve
