// What generate tells of an answer and of the chain: a table for people, JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/chain_flags.h"
#include "coordinator/generation.h"

namespace paceline::cli {

/// text, tokens, logprobs, finish_reason, counts and timings; top_logprobs, prompt_logprobs (from
/// the second token on) and logits_digests where they were asked for.
nlohmann::json to_json(const coordinator::Generation& generation);

/// One object per stage: worker, process, layers, weight, KV, resident and anonymous bytes; what
/// the whole chain was started with, and its work so far.
Result<nlohmann::json> chain_json(ChainSession& session);

/// Two lines or more for standard error: a line per stage, and the timings.
Result<std::string> summary(ChainSession& session, const coordinator::Generation& generation);

/// e.g. "12.3 MiB"
std::string human_bytes(std::uint64_t bytes);

}  // namespace paceline::cli
