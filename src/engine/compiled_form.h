// A stateful stage, compiled or imported: from the cache of forms where one fits, else from the
// package, and then into the cache.
//
// For engines of the stateful form. The paged engine has none: a PagedAttention blob is exported
// but not imported (precompile.h asks the plugin that is there).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <openvino/runtime/core.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "engine/precompile.h"
#include "shard/form_cache.h"

namespace paceline::engine {

struct CompiledForm {
  std::shared_ptr<const void> keep_alive;  ///< the mapping that an imported model reads from
  ov::CompiledModel model;
  std::uint64_t weight_bytes = 0;
  std::uint64_t embedding_rows = 0;  ///< of the table that ids are looked up in; 0: not known
  bool rewinds_by_mask = false;      ///< stateful_graph.h
  bool is_imported = false;
  bool is_stored = false;        ///< in the cache now, by this call
  std::string reason;            ///< why it was compiled, where it was
  std::string warning;           ///< damage that was found, or why nothing was stored; may be empty
  Duration load_time = {};       ///< of this call
  Duration compile_time = {};    ///< reading, cutting and compiling: of this call, or as stored
  std::uint64_t form_bytes = 0;  ///< of the form in the cache; 0 where there is none
};

/// What a form is compiled and imported with.
ov::AnyMap form_properties(ov::Core& core, const FormOptions& options, std::uint64_t weight_group);

/// Layers of the package's IR as a stateful stage; constants stay mapped.
Result<std::shared_ptr<ov::Model>> read_stage(ov::Core& core, const FormOptions& options,
                                              LayerRange layers);

/// `cache` may be null: then it is compiled. A form is imported only where its identity is the one
/// wanted and its blob has its hash; the import gets the properties that a compile would. Anything
/// else is compiled, and stored where the options say so and the device can export. Errors: those
/// of reading, cutting and compiling; never those of the cache.
Result<CompiledForm> load_compiled_form(ov::Core& core, const FormOptions& options,
                                        const shard::FormCache* cache);

}  // namespace paceline::engine
