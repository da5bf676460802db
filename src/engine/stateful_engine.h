// The stateful engine: a stage as it lies in the package, its KV cache inside the compiled model.
// One sequence at a time; what OpenVINO GenAI runs for one stream, cut into stages.
//
// For what it is good: forms that are imported instead of compiled, devices without
// PagedAttention, and as the measure for the paged engine. What it cannot do: hold two sequences,
// fork one, begin with another's prefix. StageInfo says so, and the coordinator adapts.
//
// Forgetting tokens (rejected drafts, say), as measured on SmolLM2, one thread, f32 KV at 128, 512
// and 2048 tokens:
// - Cutting the state (read, cut, set) is exact for f32 and for u8 by token, on every graph, and
//   costs 5, 20 and 69 ms: as much as a step and more.
// - A mask over the forgotten slots costs nothing now and 0.005 ms per slot in each later step;
//   sums come in another order (2e-5 in f32), and graphs that count in columns (sliding windows,
//   alibi) would count wrong.
// So profile fast masks where the graph allows it, until the masked slots outweigh a cut: 64 and
// one for eight that count. All else is cut.
// Rejected: a Slice of the state in the graph, which forgets for nothing, but hides the pattern
// from the plugin: 33, 66 and 197 ms a step instead of 20, 21 and 30.
//
// In profile exact each row is an inference of its own. The attention of several rows over a state
// gives other sums for each number of rows (5e-5 apart), so no padding makes steps of different
// sizes agree; row by row they do, bitwise, at the price that a prompt goes through at the speed
// of an answer.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "engine/stage_engine.h"
#include "shard/form_cache.h"

namespace paceline::engine {

/// Where a compiled stage may be found, once precompile.h has put it there; compiled_form.h has the
/// rules.
struct FormSource {
  const shard::FormCache* cache = nullptr;  ///< nullptr: always compiled
  std::string package_digest;
  /// Called before the package is read, so not where a form is imported. May be empty.
  std::function<Status()> before_reading;
};

/// Compiles `options.layers` for the CPU, or imports them. Sequences are as long as
/// options.context_tokens, or as the KV blocks would be. Errors: those of reading and cutting;
/// kUnimplemented where the graph has inputs that are not known, or no head.
Result<std::unique_ptr<StageEngine>> load_stateful_engine(const StageOptions& options,
                                                          const FormSource& source);

}  // namespace paceline::engine
