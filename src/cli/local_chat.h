// A conversation with a chain of this command's own.
#pragma once

#include <string>

#include "base/error.h"
#include "cli/chain_flags.h"
#include "cli/sampling_flags.h"

namespace paceline::cli {

/// `system`: a message before the conversation; empty: none.
Status chat_with_chain(const ChainFlags& chain, const SamplingFlags& sampling,
                       const std::string& system);

}  // namespace paceline::cli
