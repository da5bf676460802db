#include "base/engine_kind.h"

namespace paceline {

std::string_view to_string(EngineKind kind) {
  return kind == EngineKind::kPaged ? "paged" : "stateful";
}

std::optional<EngineKind> engine_kind_from_string(std::string_view name) {
  if (name == "paged") return EngineKind::kPaged;
  if (name == "stateful") return EngineKind::kStateful;
  return std::nullopt;
}

}  // namespace paceline
