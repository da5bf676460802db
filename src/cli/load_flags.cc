#include "cli/load_flags.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "base/json.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kMostConcurrency = 4096;
constexpr std::size_t kMostDepth = 3;  ///< the object, prompts, and their ids
constexpr std::size_t kMostValues = 16U << 20U;

Error expected(std::string_view member, const Json& value, std::string_view what) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: {}, expected {}", member, shown(value), what)};
}

Status take_number(std::string_view member, const Json& value, std::uint64_t least,
                   std::uint64_t most, std::uint64_t& number) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least ||
      value.get<std::uint64_t>() > most) {
    return fail(expected(member, value, fmt::format("a number from {} to {}", least, most)));
  }
  number = value.get<std::uint64_t>();
  return {};
}

Status take_small_number(std::string_view member, const Json& value, std::uint32_t least,
                         std::uint32_t most, std::uint32_t& number) {
  std::uint64_t wide = 0;
  PACELINE_RETURN_IF_ERROR(take_number(member, value, least, most, wide));
  number = static_cast<std::uint32_t>(wide);
  return {};
}

Status take_range(std::string_view member, const Json& value, std::string& range) {
  const bool is_number = value.is_number_unsigned();
  if (!is_number && !value.is_string()) {
    return fail(expected(member, value, "a number of tokens, or \"LEAST:MOST\""));
  }
  range = is_number ? std::to_string(value.get<std::uint64_t>()) : value.get<std::string>();
  return {};
}

Status take_temperature(const Json& value, double& temperature) {
  if (!value.is_number() || !(value.get<double>() >= 0) || !std::isfinite(value.get<double>())) {
    return fail(expected("temperature", value, "a number that is not negative"));
  }
  temperature = value.get<double>();
  return {};
}

Status take_prompts(const Json& value, std::vector<Json>& prompts) {
  if (!value.is_array() || value.empty()) {
    return fail(expected("prompts", value, "texts or arrays of token ids, one at least"));
  }
  prompts.assign(value.begin(), value.end());
  return {};
}

Status take_member(const std::string& member, const Json& value, LoadLine& load) {
  constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();
  LoadFlags& flags = load.flags;
  const std::map<std::string, std::function<Status()>> takers = {
      {"requests", [&] { return take_number(member, value, 1, kMost, flags.requests); }},
      {"concurrency",
       [&] { return take_small_number(member, value, 1, kMostConcurrency, flags.concurrency); }},
      {"prompt_tokens", [&] { return take_range(member, value, flags.prompt_tokens); }},
      {"output_tokens", [&] { return take_range(member, value, flags.output_tokens); }},
      {"shared_prefix",
       [&] { return take_small_number(member, value, 0, kMost, flags.shared_prefix); }},
      {"seed",
       [&] {
         return take_number(member, value, 0, std::numeric_limits<std::uint64_t>::max(),
                            flags.seed);
       }},
      {"temperature", [&] { return take_temperature(value, flags.temperature); }},
      {"prompts", [&] { return take_prompts(value, load.prompts); }}};
  if (const auto taker = takers.find(member); taker != takers.end()) return taker->second();
  std::string names;
  for (const auto& [name, take] : takers) names += (names.empty() ? "" : ", ") + name;
  return fail(ErrorCode::kInvalidArgument, "{}: no such member, expected one of {}",
              shown(Json(member)), names);
}

}  // namespace

Result<load::LoadSpec> LoadFlags::spec() const {
  load::LoadSpec spec;
  spec.requests = duration_s > 0 ? 0 : requests;
  spec.rate = rate;
  auto prompt = load::parse_range(prompt_tokens);
  if (!prompt) return fail(prompt.error().with_context("--prompt-tokens"));
  auto output = load::parse_range(output_tokens);
  if (!output) return fail(output.error().with_context("--output-tokens"));
  spec.prompt_tokens = *prompt;
  spec.output_tokens = *output;
  spec.shared_prefix_tokens = shared_prefix;
  spec.cancel_rate = cancel_rate;
  spec.seed = seed;
  return spec;
}

Result<LoadLine> parse_load_line(const LoadFlags& flags, std::string_view line) {
  PACELINE_ASSIGN_OR_RETURN(const Json object, parse_json(line, kMostDepth, kMostValues));
  if (!object.is_object()) {
    return fail(expected("load", object, "an object such as {\"concurrency\": 8}"));
  }
  LoadLine load{flags, {}};
  for (const auto& [member, value] : object.items()) {
    PACELINE_RETURN_IF_ERROR(take_member(member, value, load));
  }
  if (!load.prompts.empty() && !object.contains("requests")) {
    load.flags.requests = load.prompts.size();
  }
  PACELINE_RETURN_IF_ERROR(load.flags.spec());
  return load;
}

void LoadFlags::add_to(CLI::App& command) {
  command.add_option("--requests", requests, "Requests in all")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--duration", duration_s, "Send requests for so many seconds, however many")
      ->check(CLI::NonNegativeNumber);
  auto* at_once =
      command.add_option("--concurrency", concurrency, "Requests at once: one ends, one comes")
          ->check(CLI::Range(1U, kMostConcurrency))
          ->capture_default_str();
  command.add_option("--rate", rate, "Requests per second instead, at random times")
      ->check(CLI::NonNegativeNumber)
      ->excludes(at_once);
  command.add_option("--prompt-tokens", prompt_tokens, "Length of prompts: N, or LEAST:MOST")
      ->capture_default_str();
  command.add_option("--output-tokens", output_tokens, "Length of answers: N, or LEAST:MOST")
      ->capture_default_str();
  command.add_option("--shared-prefix", shared_prefix,
                     "Tokens that all synthetic prompts begin with");
  command.add_option("--file", file,
                     "Prompts instead of synthetic ones, one per line: JSON texts, arrays of token "
                     "ids, or objects with prompt or prompt_ids");
  command
      .add_option("--cancel-rate", cancel_rate,
                  "The share of requests that are cancelled, somewhere in their answers")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--temperature", temperature, "0: the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_flag("--stop-at-eos", stops_at_eos,
                   "Answers may end before their length, at the model's end token");
  command.add_option("--seed", seed, "Of lengths, times, prompts and sampling")
      ->capture_default_str();
}

}  // namespace paceline::cli
