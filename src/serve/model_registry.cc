#include "serve/model_registry.h"

#include <algorithm>
#include <utility>

namespace paceline::serve {

std::string_view to_string(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return "loading";
    case ModelState::kReady:
      return "ready";
    case ModelState::kUnloading:
      return "unloading";
    case ModelState::kUnloaded:
      return "unloaded";
    case ModelState::kFailed:
      return "failed";
  }
  return "unknown";
}

ModelState ModelRegistry::Entry::shown_state() const {
  return model && model->failure() ? ModelState::kFailed : state;
}

ModelRegistry::Entry& ModelRegistry::entry(const std::string& name) {
  for (Entry& known : entries_) {
    if (known.name == name) return known;
  }
  entries_.push_back({name, ModelState::kUnloaded, false, nullptr});
  return entries_.back();
}

const ModelRegistry::Entry* ModelRegistry::find_entry(const std::string& name) const {
  for (const Entry& known : entries_) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

void ModelRegistry::announce(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Entry& known = entry(name);
  if (known.model) return;
  known.state = ModelState::kLoading;
  known.is_awaited = true;
}

void ModelRegistry::set_state(const std::string& name, ModelState state) {
  const std::lock_guard lock(mutex_);
  Entry& known = entry(name);
  if (!known.model) known.state = state;
}

void ModelRegistry::set_ready(const std::string& name, std::shared_ptr<ServedModel> model) {
  const std::lock_guard lock(mutex_);
  Entry& known = entry(name);
  known.state = ModelState::kReady;
  known.is_awaited = false;
  std::swap(known.model, model);
}

std::shared_ptr<ServedModel> ModelRegistry::take(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Entry& known = entry(name);
  if (known.model) known.state = ModelState::kUnloading;
  return std::move(known.model);
}

void ModelRegistry::remove(const std::string& name) {
  std::shared_ptr<ServedModel> last;  // its end may take time: not under the lock
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&name](const Entry& known) { return known.name == name; });
  if (found == entries_.end()) return;
  last = std::move(found->model);
  entries_.erase(found);
}

api::Parsed<ModelRegistry::Found> ModelRegistry::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const bool is_default = name.empty() && !entries_.empty();
  const Entry* found = is_default ? &entries_.front() : find_entry(name);
  if (found == nullptr) return tl::unexpected(api::unknown_model(name));
  if (found->state == ModelState::kLoading) {
    return tl::unexpected(api::still_loading(found->name));
  }
  if (!found->model) return tl::unexpected(api::not_loaded(found->name, to_string(found->state)));
  if (const auto failure = found->model->failure()) {
    return tl::unexpected(api::from_error(*failure));
  }
  return Found{found->name, found->model};
}

std::optional<ModelState> ModelRegistry::state(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const Entry* found = find_entry(name);
  return found == nullptr ? std::nullopt : std::optional(found->state);
}

std::vector<api::ModelCard> ModelRegistry::cards() const {
  const std::lock_guard lock(mutex_);
  std::vector<api::ModelCard> cards;
  for (const Entry& known : entries_) {
    api::ModelCard card = {known.name, 0, 0, std::string(to_string(known.shown_state()))};
    if (known.model) {
      card.created = known.model->facts().created;
      card.context_tokens = known.model->facts().context_tokens;
      card.stages = known.model->facts().stages;
    }
    cards.push_back(std::move(card));
  }
  return cards;
}

std::vector<std::shared_ptr<ServedModel>> ModelRegistry::models() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> models;
  for (const Entry& known : entries_) {
    const bool is_new = std::find(models.begin(), models.end(), known.model) == models.end();
    if (known.model && is_new) models.push_back(known.model);
  }
  return models;
}

std::vector<ModelRegistry::Listed> ModelRegistry::listed() const {
  const std::lock_guard lock(mutex_);
  std::vector<Listed> all;
  for (const Entry& entry : entries_) {
    const auto same = std::find_if(all.begin(), all.end(), [&entry](const Listed& listed) {
      return entry.model && listed.model == entry.model;
    });
    if (same == all.end()) {
      all.push_back({{entry.name}, entry.shown_state(), entry.model});
    } else {
      same->names.push_back(entry.name);
    }
  }
  return all;
}

bool ModelRegistry::is_healthy() const {
  const std::lock_guard lock(mutex_);
  bool has_ready = false;
  for (const Entry& known : entries_) {
    if (known.is_awaited || (known.model && known.model->failure())) return false;
    has_ready = has_ready || known.model;
  }
  return has_ready;
}

}  // namespace paceline::serve
