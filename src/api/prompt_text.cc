#include "api/prompt_text.h"

#include <utility>

namespace paceline::api {
namespace {

constexpr const char* kExpected =
    "expected a string, an array of strings, token ids, or an array of arrays of token ids";

}  // namespace

std::optional<TokenIds> token_ids(const Json& value) {
  if (!value.is_array() || value.empty()) return std::nullopt;
  TokenIds ids;
  ids.reserve(value.size());
  for (const Json& item : value) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > UINT32_MAX) return std::nullopt;
    ids.push_back(item.get<std::int64_t>());
  }
  return ids;
}

std::vector<PromptText> read_prompts(Fields& fields, const char* name, std::size_t most) {
  fields.require(name);
  const Json* given = fields.find(name);
  if (given == nullptr) return {};
  if (given->is_string()) return {given->get<std::string>()};
  const auto refused = [&](std::string message) {
    fields.refuse(name, std::move(message));
    return std::vector<PromptText>();
  };
  if (!given->is_array() || given->empty()) return refused(kExpected);
  if (given->front().is_number()) {
    auto ids = token_ids(*given);
    if (!ids) return refused(kExpected);
    return {*std::move(ids)};
  }
  if (given->size() > most) {
    return refused(fmt::format("expected at most {} texts, got {}", most, given->size()));
  }
  std::vector<PromptText> prompts;
  for (const Json& item : *given) {
    if (item.is_string()) {
      prompts.emplace_back(item.get<std::string>());
    } else if (auto ids = token_ids(item)) {
      prompts.emplace_back(*std::move(ids));
    } else {
      return refused(kExpected);
    }
  }
  return prompts;
}

}  // namespace paceline::api
