// paceline run: from whatever a model is published as to a conversation, in one command.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/local_chat.h"
#include "cli/package_cache.h"
#include "cli/progress_bar.h"
#include "cli/weight_flags.h"
#include "compiler/compile_package.h"

namespace paceline::cli {
namespace {

struct RunFlags {
  std::string source;
  std::string cache;
  std::string system;
  ChainFlags chain;
  SamplingFlags sampling;
  std::shared_ptr<WeightFlags> weights = std::make_shared<WeightFlags>();
};

std::string words_of(const WeightFlags& weights) {
  return fmt::format("{} {} {} {} {} {}", weights.weights, weights.embedding, weights.head,
                     weights.int8_layers, weights.group, weights.search);
}

Status make_package(const RunFlags& flags, const std::filesystem::path& package) {
  const SteadyClock clock;
  compiler::CompileOptions options;
  options.threads = std::max(1U, std::thread::hardware_concurrency());
  PACELINE_ASSIGN_OR_RETURN(options.weights, weight_options(*flags.weights));
  fmt::print(stderr, "paceline: compiles {} into {}, once\n", flags.source, package.string());
  ProgressBar bar(clock);
  PACELINE_RETURN_IF_ERROR(compiler::compile_package(flags.source, package, options, bar));
  return {};
}

/// Of the source; made where it is not there yet.
Result<std::filesystem::path> package_of(const RunFlags& flags) {
  if (is_package(flags.source)) return flags.source;
  std::filesystem::path cache = flags.cache;
  if (cache.empty()) {
    PACELINE_ASSIGN_OR_RETURN(cache, default_package_cache());
  }
  PACELINE_ASSIGN_OR_RETURN(auto package,
                            cached_package(cache, flags.source, words_of(*flags.weights)));
  if (!is_package(package)) PACELINE_RETURN_IF_ERROR(make_package(flags, package));
  return package;
}

Status run(const RunFlags& flags) {
  interrupt_flag();
  PACELINE_RETURN_IF_ERROR(flags.sampling.sampling_spec());
  PACELINE_ASSIGN_OR_RETURN(const auto package, package_of(flags));
  ChainFlags chain = flags.chain;
  chain.package = package.string();
  return chat_with_chain(chain, flags.sampling, flags.system);
}

}  // namespace

void add_run_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<RunFlags>();
  flags->sampling.max_tokens = 1024;
  CLI::App* command =
      app.add_subcommand("run", "Talk with a published model; compiles it the first time");
  command
      ->add_option("source", flags->source,
                   "A GGUF file, a directory of Hugging Face's files or with an OpenVINO decoder "
                   "IR, or a package")
      ->required();
  command->add_option("--package-cache", flags->cache,
                      "Where packages are kept; $XDG_CACHE_HOME/paceline/packages if not given");
  command->add_option("--system", flags->system, "A system message before the conversation");
  add_weight_flags(*command, flags->weights);
  flags->chain.add_chain_to(*command);
  flags->sampling.add_to(*command);
  command->callback([flags, &done] { done = run(*flags); });
}

}  // namespace paceline::cli
