// paceline bench: a load on a chain, measured.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/json.h"
#include "cli/bench_report.h"
#include "cli/bench_runner.h"
#include "cli/chain_flags.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/load_flags.h"
#include "cli/report.h"
#include "load/load_plan.h"
#include "system/files.h"

namespace paceline::cli {
namespace {

constexpr std::uint64_t kMaxFileBytes = 256ULL << 20;

struct BenchFlags {
  ChainFlags chain;
  LoadFlags load;
  load::Targets targets;
  bool json = false;
  std::string html;
  std::string loads;  ///< "-": lines of standard input override the load
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
  if (auto ids = json_integers(*prompt)) return *std::move(ids);
  return fail(ErrorCode::kInvalidArgument, "expected a prompt: a text, or an array of token ids");
}

using Prompts = std::vector<std::vector<std::int64_t>>;

Result<Prompts> read_prompts(ChainSession& session, const std::string& file) {
  Prompts prompts;
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

Result<Prompts> prompts_of(ChainSession& session, const LoadLine& load) {
  if (load.prompts.empty()) return read_prompts(session, load.flags.file);
  Prompts prompts;
  for (const nlohmann::json& line : load.prompts) {
    auto prompt = prompt_of(session, line);
    if (!prompt) {
      return fail(prompt.error().with_context(fmt::format("prompts[{}]", prompts.size())));
    }
    prompts.push_back(*std::move(prompt));
  }
  return prompts;
}

Result<std::uint64_t> resident_bytes(ChainSession& session) {
  PACELINE_ASSIGN_OR_RETURN(const auto pongs, session.chain().status());
  std::uint64_t bytes = 0;
  for (const auto& [address, pong] : pongs) bytes += pong.resident_bytes;
  return bytes;
}

std::string title_of(ChainSession& session, const ChainFlags& chain, const LoadLine& load) {
  const LoadFlags& flags = load.flags;
  const std::string arrivals = flags.rate > 0 ? fmt::format("{:g} requests/s", flags.rate)
                                              : fmt::format("{} at once", flags.concurrency);
  const std::string prompts = !load.prompts.empty() ? "given"
                              : flags.file.empty()  ? flags.prompt_tokens + " tokens"
                                                    : flags.file;
  return fmt::format("{}: {} stages, {}; {}, prompts {}, answers {} tokens, seed {}",
                     session.manifest().model.name, session.chain().stages().size(), chain.profile,
                     arrivals, prompts, flags.output_tokens, flags.seed);
}

BenchOptions options_of(ChainSession& session, const LoadFlags& flags) {
  BenchOptions options;
  options.concurrency = flags.concurrency;
  options.duration =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.duration_s));
  options.request.ignore_eos = !flags.stops_at_eos;
  options.request.sampling.temperature = flags.temperature;
  options.resident_bytes = [&session] { return resident_bytes(session); };
  return options;
}

Result<BenchReport> measure(ChainSession& session, const BenchFlags& flags, const LoadLine& load) {
  PACELINE_ASSIGN_OR_RETURN(load::LoadSpec spec, load.flags.spec());
  spec.vocabulary = static_cast<std::uint32_t>(session.manifest().vocabulary_size);
  PACELINE_RETURN_IF_ERROR(load::check(spec));
  PACELINE_ASSIGN_OR_RETURN(auto prompts, prompts_of(session, load));
  load::LoadPlan plan(spec, std::move(prompts));
  BenchReport report;
  report.title = title_of(session, flags.chain, load);
  report.targets = flags.targets;
  report.kv_blocks = session.chain().plan().kv_blocks;
  PACELINE_ASSIGN_OR_RETURN(report.resident_before, resident_bytes(session));
  const SteadyClock clock;
  BenchRunner runner(session.generator(), clock, options_of(session, load.flags));
  PACELINE_ASSIGN_OR_RETURN(report.result, runner.run(plan, interrupt_flag()));
  PACELINE_ASSIGN_OR_RETURN(report.resident_after, resident_bytes(session));
  PACELINE_ASSIGN_OR_RETURN(report.chain, chain_json(session));
  report.summary = load::summarize(report.result.records, flags.targets);
  return report;
}

/// Each line as it comes, so that a program can measure something else between two of them.
Status answer_loads(ChainSession& session, const BenchFlags& flags) {
  LineReader lines(STDIN_FILENO, interrupt_flag());
  std::size_t number = 0;
  for (std::string line; lines.next(line);) {
    ++number;
    if (line.empty()) continue;
    const auto context = [&](const Error& error) {
      return fail(error.with_context(fmt::format("--loads, line {}", number)));
    };
    const auto load = parse_load_line(flags.load, line);
    if (!load) return context(load.error());
    const auto report = measure(session, flags, *load);
    if (!report) return context(report.error());
    fmt::print("{}\n", bench_json(*report).dump());
    std::fflush(stdout);
  }
  return {};
}

Status bench(const BenchFlags& flags) {
  interrupt_flag();
  PACELINE_RETURN_IF_ERROR(flags.load.spec());
  PACELINE_ASSIGN_OR_RETURN(const auto session, ChainSession::open(flags.chain));
  if (!flags.loads.empty()) return answer_loads(*session, flags);
  PACELINE_ASSIGN_OR_RETURN(const BenchReport report, measure(*session, flags, {flags.load, {}}));
  if (flags.json) {
    fmt::print("{}\n", bench_json(report).dump());
  } else {
    fmt::print("{}", bench_table(report));
  }
  if (flags.html.empty()) return {};
  return system::write_file_atomically(flags.html, bench_html(report));
}

}  // namespace

void add_bench_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand("bench", "Measure a chain under a load");
  flags->chain.add_to(*command);
  flags->load.add_to(*command);
  command
      ->add_option("--ttft-ms", flags->targets.ttft_ms,
                   "A good request has its first token within this")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--tpot-ms", flags->targets.tpot_ms,
                   "A good request takes no longer per token after the first")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", flags->json, "One JSON object instead of the table");
  auto* html = command->add_option("--html", flags->html, "Write a page with plots to this file");
  command
      ->add_option("--loads", flags->loads,
                   "-: each line of standard input is a load, answered by a line as of --json: an "
                   "object with requests, concurrency, prompt_tokens, output_tokens, "
                   "shared_prefix, seed, temperature or prompts instead of the flags'")
      ->check(CLI::IsMember({"-"}))
      ->excludes(html);
  command->callback([flags, &done] { done = bench(*flags); });
}

}  // namespace paceline::cli
