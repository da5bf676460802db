#include "api/generation_fields.h"

#include <array>
#include <charconv>

namespace paceline::api {
namespace {

constexpr std::size_t kMaxStopStrings = 16;
constexpr std::size_t kMaxStopBytes = 1024;  ///< of one, as text::StopMatcher takes it
constexpr std::size_t kMaxStopTokens = 128;
constexpr std::size_t kMaxBiases = 1024;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;
constexpr std::int64_t kMaxChoices = 16;
constexpr std::size_t kMaxName = 4096;

struct Refused {
  const char* name;
  const char* why;
};

constexpr const char* kOlder = "is an older name; use structured_outputs";
constexpr const char* kNotOffered = "is not offered";

/// Fields of OpenAI's schema and of other servers that would change the answer.
constexpr std::array kRefused = {
    Refused{"audio", "audio is not offered"},
    Refused{"web_search_options", "searching the web is not offered"},
    Refused{"suffix", "filling in before a suffix is not offered"},
    Refused{"functions", "is deprecated; use tools"},
    Refused{"function_call", "is deprecated; use tool_choice"},
    Refused{"guided_json", kOlder},
    Refused{"guided_regex", kOlder},
    Refused{"guided_choice", kOlder},
    Refused{"guided_grammar", kOlder},
    Refused{"use_beam_search", "beam search is not offered"},
    Refused{"prompt_logprobs", "is not offered; use echo and logprobs of /v1/completions"},
    Refused{"prompt_embeds", kNotOffered},
    Refused{"bad_words", "is not offered; use logit_bias"},
    Refused{"allowed_token_ids", "is not offered; use logit_bias"},
    Refused{"logits_processors", kNotOffered},
    Refused{"truncate_prompt_tokens", kNotOffered},
    Refused{"chat_template", "the model's own template is used"},
    Refused{"documents", "is not offered; use chat_template_kwargs"},
};

bool is_harmless(const Json& value) {
  return (value.is_boolean() && !value.get<bool>()) || (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

void read_stop(Fields& fields, GenerationFields& read) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return;
  const auto take = [&](const Json& item) {
    if (!item.is_string()) return fields.refuse("stop", "expected a string or an array of strings");
    const auto& text = item.get_ref<const std::string&>();
    if (text.empty()) return fields.refuse("stop", "a stop string may not be empty");
    if (text.size() > kMaxStopBytes) {
      return fields.refuse("stop", fmt::format("expected at most {} bytes", kMaxStopBytes));
    }
    read.stop.push_back(text);
  };
  if (!stop->is_array()) return take(*stop);
  if (stop->size() > kMaxStopStrings) {
    return fields.refuse(
        "stop", fmt::format("expected at most {} strings, got {}", kMaxStopStrings, stop->size()));
  }
  for (const Json& item : *stop) take(item);
}

void read_logit_bias(Fields& fields, GenerationFields& read) {
  const Json* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  if (biases->size() > kMaxBiases) {
    return fields.refuse("logit_bias", fmt::format("expected at most {} tokens", kMaxBiases));
  }
  for (const auto& [name, value] : biases->items()) {
    sampling::LogitBias entry;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data(), end, entry.token);
    if (error != std::errc() || at != end) {
      return fields.refuse("logit_bias", "expected token ids as keys, such as \"1234\"");
    }
    const double bias = value.is_number() ? value.get<double>() : 1000;
    if (!(bias >= -100 && bias <= 100)) {
      return fields.refuse("logit_bias", "expected numbers from -100 to 100");
    }
    entry.bias = static_cast<float>(bias);
    read.logit_bias.push_back(entry);
  }
}

void read_stop_tokens(Fields& fields, GenerationFields& read) {
  const Json* ids = fields.array("stop_token_ids", kMaxStopTokens);
  if (ids == nullptr) return;
  for (const Json& id : *ids) {
    const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() <= UINT32_MAX;
    if (!fits) return fields.refuse("stop_token_ids", "expected token ids: integers of at least 0");
    read.stop_tokens.push_back(id.get<std::uint32_t>());
  }
}

void read_max_tokens(Fields& fields, GenerationFields& read) {
  const auto newer = fields.integer("max_completion_tokens", 1, kMaxTokens);
  // Completions may ask for none, to score a prompt; chat_request.cc refuses that.
  const auto older = fields.integer("max_tokens", 0, kMaxTokens);
  if (newer && older && *newer != *older) {
    fields.refuse("max_tokens", "differs from max_completion_tokens; give one of the two");
  }
  if (newer && !older) read.limit_field = "max_completion_tokens";
  if (const auto given = newer ? newer : older)
    read.max_tokens = static_cast<std::uint32_t>(*given);
}

void read_stream(Fields& fields, GenerationFields& read) {
  read.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!read.stream) fields.refuse("stream_options", "is for requests with stream true");
  Fields inner = fields.inside(*options, "stream_options.");
  read.include_usage = inner.boolean("include_usage").value_or(false);
  (void)inner.boolean("include_obfuscation");
}

void read_sampling(Fields& fields, GenerationFields& read) {
  read.temperature = fields.number("temperature", 0, 2);
  read.top_p = fields.number("top_p", 0, 1);
  read.min_p = fields.number("min_p", 0, 1);
  // -1 means all, as elsewhere.
  if (const auto top_k = fields.integer("top_k", -1, INT32_MAX)) {
    read.top_k = *top_k < 0 ? 0 : static_cast<std::uint32_t>(*top_k);
  }
  read.repetition_penalty = fields.number("repetition_penalty", 0.01, 100);
  read.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  read.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) {
    read.seed = static_cast<std::uint64_t>(*seed);
  }
  read_logit_bias(fields, read);
  read_stop_tokens(fields, read);
  read.min_tokens =
      static_cast<std::uint32_t>(fields.integer("min_tokens", 0, kMaxTokens).value_or(0));
}

/// Who asks and what it is to be remembered by: checked, and no part of the answer.
void read_labels(Fields& fields) {
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"}) {
    (void)fields.text(name, kMaxName);
  }
  (void)fields.one_of("prompt_cache_retention", {"in-memory", "in_memory", "24h"});
  (void)fields.one_of("service_tier", {"auto", "default", "flex", "scale", "priority"});
  (void)fields.boolean("store");
  (void)fields.object("prediction");  // it would only make the same answer come sooner
  const Json* metadata = fields.object("metadata");
  if (metadata == nullptr) return;
  if (metadata->size() > 16) fields.refuse("metadata", "expected at most 16 pairs");
  for (const auto& [key, value] : metadata->items()) {
    if (!value.is_string()) fields.refuse("metadata", "expected strings as values");
  }
}

}  // namespace

void check_form(Fields& fields, const GenerationFields& read) {
  if (!read.grammar) return;
  const std::string excludes = "excludes " + read.grammar->field;
  if (read.min_tokens > 0) fields.refuse("min_tokens", excludes);
  if (read.ignore_eos) fields.refuse("ignore_eos", excludes);
}

GenerationFields read_generation_fields(Fields& fields) {
  GenerationFields read;
  read.model = fields.text("model", kMaxName).value_or("");
  read_stream(fields, read);
  read.choices = static_cast<std::uint32_t>(fields.integer("n", 1, kMaxChoices).value_or(1));
  read_max_tokens(fields, read);
  read_sampling(fields, read);
  read_stop(fields, read);
  read.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  read.grammar = read_grammar(fields);
  check_form(fields, read);
  read.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  read.cache_salt = fields.text("cache_salt", kMaxName).value_or("");
  read.priority =
      static_cast<std::int32_t>(fields.integer("priority", -1000000, 1000000).value_or(0));
  read_labels(fields);
  refuse_unsupported(fields);
  if (read.max_tokens && read.min_tokens > *read.max_tokens) {
    fields.refuse("min_tokens",
                  fmt::format("{} is more than max_tokens {}", read.min_tokens, *read.max_tokens));
  }
  return read;
}

void refuse_unsupported(Fields& fields) {
  for (const Refused& refused : kRefused) {
    const Json* value = fields.find(refused.name);
    if (value != nullptr && !is_harmless(*value)) {
      fields.refuse_unsupported(refused.name, refused.why);
    }
  }
}

std::optional<ApiError> check_tokens(const GenerationFields& fields,
                                     std::uint64_t vocabulary_size) {
  const auto outside = [vocabulary_size](const char* name, std::uint32_t token) {
    return invalid_field(
        name, fmt::format("token {} is outside the vocabulary of {}", token, vocabulary_size));
  };
  for (const sampling::LogitBias& entry : fields.logit_bias) {
    if (entry.token >= vocabulary_size) return outside("logit_bias", entry.token);
  }
  for (const std::uint32_t token : fields.stop_tokens) {
    if (token >= vocabulary_size) return outside("stop_token_ids", token);
  }
  return std::nullopt;
}

sampling::SamplingSpec GenerationFields::sampling_spec(const SamplingDefaults& model,
                                                       std::uint64_t seed_else) const {
  // What a publisher says of sampling counts where it wants sampling.
  const SamplingDefaults defaults = model.do_sample.value_or(false) ? model : SamplingDefaults();
  sampling::SamplingSpec spec;
  spec.temperature = temperature.value_or(defaults.temperature.value_or(1));
  spec.top_p = top_p.value_or(defaults.top_p.value_or(1));
  spec.top_k = top_k.value_or(defaults.top_k.value_or(0));
  if (spec.top_p <= 0) {  // no mass at all: the likeliest token is left
    spec.top_p = 1;
    spec.top_k = 1;
  }
  spec.min_p = min_p.value_or(defaults.min_p.value_or(0));
  spec.repetition_penalty = repetition_penalty.value_or(defaults.repetition_penalty.value_or(1));
  spec.presence_penalty = presence_penalty;
  spec.frequency_penalty = frequency_penalty;
  spec.seed = seed.value_or(seed_else);
  spec.logit_bias = logit_bias;
  spec.stop_tokens = stop_tokens;
  spec.min_tokens = min_tokens;
  spec.logprobs = logprobs;
  if (grammar) spec.grammar = grammar->spec;
  return spec;
}

}  // namespace paceline::api
