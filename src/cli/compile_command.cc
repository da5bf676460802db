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

namespace paceline::cli {
namespace {

struct CompileFlags {
  std::string source;
  std::string package;
  std::uint32_t jobs = std::max(1U, std::thread::hardware_concurrency());
  bool json = false;
};

void show(const CompileFlags& flags, const compiler::CompileReport& report) {
  const shard::Manifest& manifest = report.manifest;
  const std::string tested =
      report.self_test.whole_checked
          ? "the whole chain equals the model bit for bit"
          : fmt::format("{} windows equal the model bit for bit, {} left out for memory",
                        report.self_test.windows_checked, report.self_test.windows_skipped);
  if (flags.json) {
    const nlohmann::json json = {{"package", flags.package},
                                 {"digest", manifest.digest},
                                 {"layers", manifest.layers},
                                 {"weight_bytes", manifest.weight_bytes},
                                 {"self_test",
                                  {{"whole_checked", report.self_test.whole_checked},
                                   {"windows_checked", report.self_test.windows_checked},
                                   {"windows_skipped", report.self_test.windows_skipped},
                                   {"largest_difference", report.self_test.largest_difference}}}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{}: {}, {} layers, {}; self-test: {}\n", flags.package, manifest.model.name,
             manifest.layers, human_bytes(manifest.weight_bytes), tested);
}

Status compile(const CompileFlags& flags) {
  interrupt_flag();
  const SteadyClock clock;
  compiler::CompileOptions options;
  options.threads = flags.jobs;
  Result<compiler::CompileReport> report = [&] {
    ProgressBar bar(clock);
    return compiler::compile_package(flags.source, flags.package, options, bar);
  }();
  if (!report) return fail(std::move(report).error());
  show(flags, *report);
  return {};
}

}  // namespace

void add_compile_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App* command = app.add_subcommand(
      "compile", "Make a package of a GGUF file or of a directory with an OpenVINO decoder IR");
  command->add_option("source", flags->source, "The GGUF file or the directory")->required();
  command->add_option("-o,--output", flags->package, "The package directory to make")->required();
  command->add_option("--jobs,-j", flags->jobs, "Threads")
      ->check(CLI::Range(1U, 1024U))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "The outcome as JSON");
  command->callback([flags, &done] { done = compile(*flags); });
}

}  // namespace paceline::cli
