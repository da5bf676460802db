// The models that a server has, by the names that requests use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/api_error.h"
#include "api/responses.h"
#include "serve/served_model.h"

namespace paceline::serve {

/// A model may have several names; the first one of all is the default. A model in use lives on
/// after it was removed, until its last request lets it go. Thread-safe.
class ModelRegistry {
 public:
  struct Found {
    std::string name;  ///< that answers call it by
    std::shared_ptr<ServedModel> model;
  };

  /// The name is known from now on; until set_ready(), requests for it get 503.
  void announce(const std::string& name);
  void set_ready(const std::string& name, std::shared_ptr<ServedModel> model);
  void remove(const std::string& name);

  /// An empty name is the default. Unknown: 404; not ready: 503; its chain has failed: 503.
  api::Parsed<Found> find(const std::string& name) const;

  /// Those that are ready, in the order of announcement.
  std::vector<api::ModelCard> cards() const;
  /// Those that are ready, each once.
  std::vector<std::shared_ptr<ServedModel>> models() const;
  struct Listed {
    std::vector<std::string> names;      ///< one at least
    std::shared_ptr<ServedModel> model;  ///< null: not ready
  };
  /// Each model once, with all its names; those that are not ready, too.
  std::vector<Listed> listed() const;
  /// All that were announced are ready, at least one is, and none has failed.
  bool is_healthy() const;

 private:
  struct Entry {
    std::string name;
    std::shared_ptr<ServedModel> model;  ///< null: not ready
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace paceline::serve
