// How a stage keeps its KV cache, and with it how many sequences it serves.
#pragma once

#include <optional>
#include <string_view>

namespace paceline {

enum class EngineKind {
  kPaged,     ///< KV in blocks: many sequences, shared prefixes, forks
  kStateful,  ///< KV inside the compiled model: one sequence at a time
};

std::string_view to_string(EngineKind kind);
std::optional<EngineKind> engine_kind_from_string(std::string_view name);

}  // namespace paceline
