#include "cli/sampling_flags.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::cli {
namespace {

/// True where the whole text is a number.
template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

void SamplingFlags::add_to(CLI::App& command) {
  command_ = &command;
  command.add_option("--max-tokens,-n", max_tokens, "Tokens to answer at most")
      ->check(CLI::Range(1U, 1U << 24U))
      ->capture_default_str();
  const auto add = [&command](const char* flag, auto& value, const std::string& meaning) {
    return command
        .add_option(flag, value, meaning + "; default: the package's (see inspect), else this")
        ->capture_default_str();
  };
  options_.temperature = add("--temperature", spec.temperature, "0: always the likeliest token");
  options_.top_p =
      add("--top-p", spec.top_p, "Choose among the likeliest with this probability mass");
  options_.top_k = add("--top-k", spec.top_k, "Choose among the k likeliest; 0: all");
  options_.min_p = add("--min-p", spec.min_p,
                       "Choose among those of at least this share of the likeliest's probability");
  options_.repetition_penalty =
      add("--repetition-penalty", spec.repetition_penalty,
          "Above 1: tokens of the prompt and the answer become less likely");
  command
      .add_option("--presence-penalty", spec.presence_penalty,
                  "-2 to 2, taken off the logits of tokens that the answer has")
      ->capture_default_str();
  command
      .add_option("--frequency-penalty", spec.frequency_penalty,
                  "The same, times how often the answer has them")
      ->capture_default_str();
  command
      .add_option("--logit-bias", logit_bias,
                  "TOKEN:BIAS is added to a token's logit, TOKEN:-inf forbids it; may be repeated")
      ->delimiter(',');
  command.add_option("--seed", spec.seed, "The same seed gives the same text")
      ->capture_default_str();
  command.add_option("--stop", stop, "End the answer before this text; may be repeated")
      ->take_all()
      ->expected(1);
  command
      .add_option("--stop-token", spec.stop_tokens,
                  "End the answer at this token id; may be repeated")
      ->delimiter(',');
  command
      .add_option("--min-tokens", spec.min_tokens, "No end token before the answer has this many")
      ->capture_default_str();
}

Result<sampling::SamplingSpec> SamplingFlags::sampling_spec(const SamplingDefaults& package) const {
  sampling::SamplingSpec whole = spec;
  if (package.do_sample.value_or(false)) {
    const auto take = [](const CLI::Option* flag, auto& value, const auto& default_value) {
      if (default_value && (flag == nullptr || flag->count() == 0)) value = *default_value;
    };
    // Its publisher wants sampling, which a temperature of 0 would not be.
    take(options_.temperature, whole.temperature, std::optional(package.temperature.value_or(1)));
    take(options_.top_p, whole.top_p, package.top_p);
    take(options_.top_k, whole.top_k, package.top_k);
    take(options_.min_p, whole.min_p, package.min_p);
    take(options_.repetition_penalty, whole.repetition_penalty, package.repetition_penalty);
  }
  for (const std::string& text : logit_bias) {
    PACELINE_ASSIGN_OR_RETURN(const auto entry, parse_logit_bias(text));
    whole.logit_bias.push_back(entry);
  }
  PACELINE_RETURN_IF_ERROR(sampling::check(whole));
  return whole;
}

bool SamplingFlags::is_given(const char* flag) const {
  return command_ != nullptr && command_->get_option(flag)->count() > 0;
}

Result<nlohmann::ordered_json> SamplingFlags::request_fields() const {
  PACELINE_ASSIGN_OR_RETURN(const auto whole, sampling_spec());
  nlohmann::ordered_json fields = {{"max_tokens", max_tokens}};
  const auto add = [&](const char* flag, const char* field, const auto& value) {
    if (is_given(flag)) fields[field] = value;
  };
  add("--temperature", "temperature", whole.temperature);
  add("--top-p", "top_p", whole.top_p);
  add("--top-k", "top_k", whole.top_k);
  add("--min-p", "min_p", whole.min_p);
  add("--repetition-penalty", "repetition_penalty", whole.repetition_penalty);
  add("--presence-penalty", "presence_penalty", whole.presence_penalty);
  add("--frequency-penalty", "frequency_penalty", whole.frequency_penalty);
  add("--seed", "seed", whole.seed);
  add("--stop", "stop", stop);
  add("--stop-token", "stop_token_ids", whole.stop_tokens);
  add("--min-tokens", "min_tokens", whole.min_tokens);
  for (const sampling::LogitBias& bias : whole.logit_bias) {
    // The API's least is -100, which forbids a token as well.
    fields["logit_bias"][std::to_string(bias.token)] = std::max(bias.bias, -100.0F);
  }
  return fields;
}

Result<sampling::LogitBias> parse_logit_bias(const std::string& text) {
  const std::size_t colon = text.find(':');
  sampling::LogitBias entry;
  if (colon == std::string::npos ||
      !parse_number(std::string_view(text).substr(0, colon), entry.token) ||
      !parse_number(std::string_view(text).substr(colon + 1), entry.bias)) {
    return fail(ErrorCode::kInvalidArgument,
                "--logit-bias {}: expected a token id and a number, such as 5:-1.5", text);
  }
  return entry;
}

}  // namespace paceline::cli
