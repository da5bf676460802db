// What chat and completion requests have in common: how much is generated, and how tokens are
// chosen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/fields.h"
#include "api/grammar_fields.h"
#include "base/sampling_defaults.h"
#include "sampling/sampling_spec.h"

namespace paceline::api {

/// As the client gave it; what is not there is left to the model's publisher and the server.
struct GenerationFields {
  std::string model;  ///< empty: the default one
  bool stream = false;
  bool include_usage = false;  ///< one more chunk, with the counts
  std::uint32_t choices = 1;
  std::optional<std::uint32_t> max_tokens;
  const char* limit_field = "max_tokens";  ///< that named it

  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<std::uint32_t> top_k;  ///< 0: all
  std::optional<double> repetition_penalty;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::optional<std::uint64_t> seed;
  std::vector<sampling::LogitBias> logit_bias;
  std::vector<std::uint32_t> stop_tokens;
  std::uint32_t min_tokens = 0;
  std::optional<std::uint32_t> logprobs;  ///< with so many of the likeliest tokens

  std::optional<AskedGrammar> grammar;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  std::string cache_salt;
  std::int32_t priority = 0;

  /// The whole specification: the request's values, else the publisher's, else the schema's
  /// (temperature 1). `seed` is taken where the request names none.
  sampling::SamplingSpec sampling_spec(const SamplingDefaults& model, std::uint64_t seed) const;
};

/// All but logprobs and top_logprobs, which the two kinds of requests spell differently.
GenerationFields read_generation_fields(Fields& fields);

/// What excludes a form of the answer: a text that is whole needs a token to end with.
void check_form(Fields& fields, const GenerationFields& read);

/// Token ids of logit_bias and stop_token_ids that the model does not have: 400.
std::optional<ApiError> check_tokens(const GenerationFields& fields, std::uint64_t vocabulary_size);

/// Refuses by name what is known, not offered and would change the answer.
void refuse_unsupported(Fields& fields);

}  // namespace paceline::api
