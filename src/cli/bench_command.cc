// paceline bench: a load on a chain, measured.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "cli/bench_report.h"
#include "cli/bench_runner.h"
#include "cli/chain_flags.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/report.h"
#include "load/load_plan.h"
#include "system/files.h"

namespace paceline::cli {
namespace {

constexpr std::uint64_t kMaxFileBytes = 256ULL << 20;

struct BenchFlags {
  ChainFlags chain;
  std::uint64_t requests = 32;
  double duration_s = 0;
  std::uint32_t concurrency = 8;
  double rate = 0;
  std::string prompt_tokens = "128";
  std::string output_tokens = "64";
  std::uint32_t shared_prefix = 0;
  std::string file;
  double cancel_rate = 0;
  double temperature = 0;
  bool stops_at_eos = false;
  std::uint64_t seed = 0;
  load::Targets targets;
  bool json = false;
  std::string html;
};

/// A line's prompt: {"prompt": "text"}, {"prompt_ids": [...]}, or the same without the object.
Result<std::vector<std::int64_t>> prompt_of(ChainSession& session, const nlohmann::json& line) {
  const nlohmann::json* prompt = &line;
  if (line.is_object()) {
    if (line.contains("prompt_ids")) {
      prompt = &line["prompt_ids"];
    } else if (line.contains("prompt")) {
      prompt = &line["prompt"];
    }
  }
  if (prompt->is_string()) {
    PACELINE_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, session.tokenizer());
    return tokenizer->encode(prompt->get<std::string>(), true);
  }
  std::vector<std::int64_t> ids;
  bool are_ids = prompt->is_array();
  for (const auto& id : *prompt) {
    are_ids = are_ids && id.is_number_integer();
    if (are_ids) ids.push_back(id.get<std::int64_t>());
  }
  if (are_ids) return ids;
  return fail(ErrorCode::kInvalidArgument, "expected a prompt: a text, or an array of token ids");
}

Result<std::vector<std::vector<std::int64_t>>> read_prompts(ChainSession& session,
                                                            const std::string& file) {
  std::vector<std::vector<std::int64_t>> prompts;
  if (file.empty()) return prompts;
  PACELINE_ASSIGN_OR_RETURN(const auto content, system::read_text_file(file, kMaxFileBytes));
  std::istringstream lines(content);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    auto prompt = prompt_of(session, nlohmann::json::parse(line, nullptr, false));
    if (!prompt) return fail(prompt.error().with_context(fmt::format("{}:{}", file, number)));
    prompts.push_back(*std::move(prompt));
  }
  if (prompts.empty()) return fail(ErrorCode::kInvalidArgument, "{}: has no prompts", file);
  return prompts;
}

Result<load::LoadSpec> load_spec(const BenchFlags& flags) {
  load::LoadSpec spec;
  spec.requests = flags.duration_s > 0 ? 0 : flags.requests;
  spec.rate = flags.rate;
  auto prompt = load::parse_range(flags.prompt_tokens);
  if (!prompt) return fail(prompt.error().with_context("--prompt-tokens"));
  auto output = load::parse_range(flags.output_tokens);
  if (!output) return fail(output.error().with_context("--output-tokens"));
  spec.prompt_tokens = *prompt;
  spec.output_tokens = *output;
  spec.shared_prefix_tokens = flags.shared_prefix;
  spec.cancel_rate = flags.cancel_rate;
  spec.seed = flags.seed;
  return spec;
}

Result<std::uint64_t> resident_bytes(ChainSession& session) {
  PACELINE_ASSIGN_OR_RETURN(const auto pongs, session.chain().status());
  std::uint64_t bytes = 0;
  for (const auto& [address, pong] : pongs) bytes += pong.resident_bytes;
  return bytes;
}

std::string title_of(ChainSession& session, const BenchFlags& flags) {
  const std::string arrivals = flags.rate > 0 ? fmt::format("{:g} requests/s", flags.rate)
                                              : fmt::format("{} at once", flags.concurrency);
  const std::string prompts = flags.file.empty() ? flags.prompt_tokens + " tokens" : flags.file;
  return fmt::format("{}: {} stages, {}; {}, prompts {}, answers {} tokens, seed {}",
                     session.manifest().model.name, session.chain().stages().size(),
                     flags.chain.profile, arrivals, prompts, flags.output_tokens, flags.seed);
}

Result<BenchReport> measure(ChainSession& session, const BenchFlags& flags, load::LoadSpec spec) {
  spec.vocabulary = static_cast<std::uint32_t>(session.manifest().vocabulary_size);
  PACELINE_RETURN_IF_ERROR(load::check(spec));
  PACELINE_ASSIGN_OR_RETURN(auto prompts, read_prompts(session, flags.file));
  load::LoadPlan plan(spec, std::move(prompts));
  BenchOptions options;
  options.concurrency = flags.concurrency;
  options.duration =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.duration_s));
  options.request.ignore_eos = !flags.stops_at_eos;
  options.request.sampling.temperature = flags.temperature;
  BenchReport report;
  report.title = title_of(session, flags);
  report.targets = flags.targets;
  report.kv_blocks = session.chain().plan().kv_blocks;
  PACELINE_ASSIGN_OR_RETURN(report.resident_before, resident_bytes(session));
  options.resident_bytes = [&session] { return resident_bytes(session); };
  const SteadyClock clock;
  BenchRunner runner(session.generator(), clock, std::move(options));
  PACELINE_ASSIGN_OR_RETURN(report.result, runner.run(plan, interrupt_flag()));
  PACELINE_ASSIGN_OR_RETURN(report.resident_after, resident_bytes(session));
  PACELINE_ASSIGN_OR_RETURN(report.chain, chain_json(session));
  report.summary = load::summarize(report.result.records, flags.targets);
  return report;
}

Status bench(const BenchFlags& flags) {
  interrupt_flag();
  PACELINE_ASSIGN_OR_RETURN(const load::LoadSpec spec, load_spec(flags));
  PACELINE_ASSIGN_OR_RETURN(const auto session, ChainSession::open(flags.chain));
  PACELINE_ASSIGN_OR_RETURN(const BenchReport report, measure(*session, flags, spec));
  if (flags.json) {
    fmt::print("{}\n", bench_json(report).dump());
  } else {
    fmt::print("{}", bench_table(report));
  }
  if (flags.html.empty()) return {};
  return system::write_file_atomically(flags.html, bench_html(report));
}

void add_load_flags(CLI::App& command, BenchFlags& flags) {
  command.add_option("--requests", flags.requests, "Requests in all")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--duration", flags.duration_s, "Send requests for so many seconds, however many")
      ->check(CLI::NonNegativeNumber);
  auto* concurrency =
      command
          .add_option("--concurrency", flags.concurrency, "Requests at once: one ends, one comes")
          ->check(CLI::Range(1U, 4096U))
          ->capture_default_str();
  command.add_option("--rate", flags.rate, "Requests per second instead, at random times")
      ->check(CLI::NonNegativeNumber)
      ->excludes(concurrency);
  command.add_option("--prompt-tokens", flags.prompt_tokens, "Length of prompts: N, or LEAST:MOST")
      ->capture_default_str();
  command.add_option("--output-tokens", flags.output_tokens, "Length of answers: N, or LEAST:MOST")
      ->capture_default_str();
  command.add_option("--shared-prefix", flags.shared_prefix,
                     "Tokens that all synthetic prompts begin with");
  command.add_option("--file", flags.file,
                     "Prompts instead of synthetic ones, one per line: JSON texts, arrays of token "
                     "ids, or objects with prompt or prompt_ids");
  command
      .add_option("--cancel-rate", flags.cancel_rate,
                  "The share of requests that are cancelled, somewhere in their answers")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--temperature", flags.temperature, "0: the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_flag("--stop-at-eos", flags.stops_at_eos,
                   "Answers may end before their length, at the model's end token");
  command.add_option("--seed", flags.seed, "Of lengths, times, prompts and sampling")
      ->capture_default_str();
}

}  // namespace

void add_bench_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand("bench", "Measure a chain under a load");
  flags->chain.add_to(*command);
  add_load_flags(*command, *flags);
  command
      ->add_option("--ttft-ms", flags->targets.ttft_ms,
                   "A good request has its first token within this")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--tpot-ms", flags->targets.tpot_ms,
                   "A good request takes no longer per token after the first")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", flags->json, "One JSON object instead of the table");
  command->add_option("--html", flags->html, "Write a page with plots to this file");
  command->callback([flags, &done] { done = bench(*flags); });
}

}  // namespace paceline::cli
