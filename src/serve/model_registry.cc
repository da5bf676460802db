#include "serve/model_registry.h"

#include <algorithm>
#include <utility>

namespace paceline::serve {

void ModelRegistry::announce(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto same = [&name](const Entry& entry) { return entry.name == name; };
  if (std::none_of(entries_.begin(), entries_.end(), same)) entries_.push_back({name, nullptr});
}

void ModelRegistry::set_ready(const std::string& name, std::shared_ptr<ServedModel> model) {
  announce(name);
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.name == name) entry.model = std::move(model);
  }
}

void ModelRegistry::remove(const std::string& name) {
  std::shared_ptr<ServedModel> last;  // its end may take time: not under the lock
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&name](const Entry& entry) { return entry.name == name; });
  if (found == entries_.end()) return;
  last = std::move(found->model);
  entries_.erase(found);
}

api::Parsed<ModelRegistry::Found> ModelRegistry::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&name](const Entry& entry) {
    return name.empty() || entry.name == name;
  });
  if (found == entries_.end()) return tl::unexpected(api::unknown_model(name));
  if (!found->model) return tl::unexpected(api::still_loading(found->name));
  if (const auto failure = found->model->failure()) {
    return tl::unexpected(api::from_error(*failure));
  }
  return Found{found->name, found->model};
}

std::vector<api::ModelCard> ModelRegistry::cards() const {
  const std::lock_guard lock(mutex_);
  std::vector<api::ModelCard> cards;
  for (const Entry& entry : entries_) {
    if (!entry.model) continue;
    const ModelFacts& facts = entry.model->facts();
    cards.push_back({entry.name, facts.created, facts.context_tokens});
  }
  return cards;
}

std::vector<std::shared_ptr<ServedModel>> ModelRegistry::models() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> models;
  for (const Entry& entry : entries_) {
    const bool is_new = std::find(models.begin(), models.end(), entry.model) == models.end();
    if (entry.model && is_new) models.push_back(entry.model);
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
      all.push_back({{entry.name}, entry.model});
    } else {
      same->names.push_back(entry.name);
    }
  }
  return all;
}

bool ModelRegistry::is_healthy() const {
  const std::lock_guard lock(mutex_);
  return !entries_.empty() && std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.model && !entry.model->failure();
  });
}

}  // namespace paceline::serve
