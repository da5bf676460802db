// paceline compile: a published model becomes a package.
#include "compiler/compile_package.h"

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/progress_bar.h"
#include "cli/report.h"
#include "cli/weight_flags.h"
#include "compiler/error_report.h"

namespace paceline::cli {
namespace {

struct CompileFlags {
  std::string source;
  std::string package;
  std::uint32_t jobs = std::max(1U, std::thread::hardware_concurrency());
  std::uint64_t memory_bytes = 0;
  std::string report;
  bool resume = true;
  bool json = false;
};

/// How many bits a weight takes now, and what that cost.
std::string told_of(const compiler::WeightsReport& weights) {
  if (weights.elements == 0) return {};
  return fmt::format(
      "weights: {:.2f} bits each, relative error {:.4f}\n",
      8.0 * static_cast<double>(weights.stored_bytes) / static_cast<double>(weights.elements),
      weights.error);
}

void show(const CompileFlags& flags, const compiler::CompileReport& report,
          const compiler::WeightsReport& weights) {
  const shard::Manifest& manifest = report.manifest;
  const std::string tested =
      report.self_test.whole_checked
          ? "the whole chain equals the model bit for bit"
          : fmt::format(
                "{} windows in {} forms equal the model bit for bit, {} left out for memory",
                report.self_test.windows_checked, report.self_test.window_forms,
                report.self_test.windows_skipped);
  if (flags.json) {
    const nlohmann::json json = {{"package", flags.package},
                                 {"digest", manifest.digest},
                                 {"layers", manifest.layers},
                                 {"weight_bytes", manifest.weight_bytes},
                                 {"weight_error", weights.error},
                                 {"self_test",
                                  {{"whole_checked", report.self_test.whole_checked},
                                   {"windows_checked", report.self_test.windows_checked},
                                   {"window_forms", report.self_test.window_forms},
                                   {"windows_skipped", report.self_test.windows_skipped},
                                   {"largest_difference", report.self_test.largest_difference}}}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{}: {}, {} layers, {}; self-test: {}\n", flags.package, manifest.model.name,
             manifest.layers, human_bytes(manifest.weight_bytes), tested);
  fmt::print("{}", told_of(weights));
}

Status compile(const CompileFlags& flags, const WeightFlags& weight_flags) {
  interrupt_flag();
  const SteadyClock clock;
  compiler::CompileOptions options;
  options.threads = flags.jobs;
  options.memory_bytes = flags.memory_bytes;
  options.resume = flags.resume;
  options.measure = !flags.report.empty();
  PACELINE_ASSIGN_OR_RETURN(options.weights, weight_options(weight_flags));
  Result<compiler::CompileReport> report = [&] {
    ProgressBar bar(clock);
    return compiler::compile_package(flags.source, flags.package, options, bar);
  }();
  if (!report) return fail(std::move(report).error());
  const auto weights = compiler::report_on(report->manifest.model.name, report->weights);
  show(flags, *report, weights);
  if (flags.report.empty()) return {};
  return compiler::write_report(weights, flags.report);
}

}  // namespace

void add_compile_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<CompileFlags>();
  auto weight_flags = std::make_shared<WeightFlags>();
  CLI::App* command = app.add_subcommand(
      "compile", "Make a package of a GGUF file or of a directory with an OpenVINO decoder IR");
  command->add_option("source", flags->source, "The GGUF file or the directory")->required();
  command->add_option("-o,--output", flags->package, "The package directory to make")->required();
  command->add_option("--jobs,-j", flags->jobs, "Threads")
      ->check(CLI::Range(1U, 1024U))
      ->capture_default_str();
  command
      ->add_option(
          "--memory", flags->memory_bytes,
          "Bytes that the process may take, e.g. 2GiB; default: 1280MiB, or 80 % of what is "
          "free")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{512} << 20, std::uint64_t{1} << 50));
  add_weight_flags(*command, weight_flags);
  command->add_option("--report", flags->report,
                      "Where the error of every tensor goes: FILE.json, FILE.html, or a directory "
                      "for both");
  command->add_flag("--resume,!--no-resume", flags->resume,
                    "Go on with what an interrupted compile left in OUTPUT.partial (default), or "
                    "begin anew and leave nothing");
  command->add_flag("--json", flags->json, "The outcome as JSON");
  command->callback([flags, weight_flags, &done] { done = compile(*flags, *weight_flags); });
}

}  // namespace paceline::cli
