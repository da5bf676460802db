#include "cli/chain_flags.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "cli/package_files.h"
#include "draft/load_drafter.h"
#include "plan/divide.h"
#include "shard/package.h"

namespace paceline::cli {
namespace {

constexpr auto kConnectTimeout = std::chrono::seconds(10);
constexpr std::uint32_t kMostChoices = 65536;

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

/// Who a worker says it belongs to, e.g. "desk-4 (process 1234)".
std::string own_name() {
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{} (process {})", host.data(), ::getpid());
}

Result<Profile> profile_of(const ChainFlags& flags) {
  const auto profile = profile_from_string(flags.profile);
  if (profile) return *profile;
  return fail(ErrorCode::kInvalidArgument, "--profile {}: expected fast or exact", flags.profile);
}

Result<coordinator::ChainSettings> chain_settings(const ChainFlags& flags) {
  coordinator::ChainSettings settings;
  settings.private_layers = flags.private_layers;
  settings.threads = flags.threads;
  settings.context_tokens = flags.context_tokens;
  settings.kv_memory_bytes = flags.kv_memory_bytes;
  PACELINE_ASSIGN_OR_RETURN(settings.profile, profile_of(flags));
  settings.engine = engine_kind_from_string(flags.engine).value_or(EngineKind::kPaged);
  settings.link_precision =
      link_precision_from_string(flags.link_precision).value_or(LinkPrecision::kNative);
  if (!flags.split.empty()) {
    auto weights = plan::parse_weights(flags.split);
    if (!weights) return fail(weights.error().with_context("--split"));
    settings.weights = *std::move(weights);
  }
  return settings;
}

coordinator::BatchOptions batch_options(const ChainFlags& flags,
                                        const coordinator::ChainPlan& plan) {
  coordinator::BatchOptions options;
  options.scheduler.context_tokens = plan.context_tokens;
  options.scheduler.kv_blocks = plan.kv_blocks;
  options.scheduler.block_tokens = plan.logical_block_tokens;
  options.scheduler.max_running = flags.max_running;
  options.scheduler.max_waiting = flags.max_waiting;
  options.scheduler.max_choices = kMostChoices;
  options.scheduler.steps_ahead = flags.drafts_ahead;
  options.scheduler.max_drafts = flags.drafts;
  if (flags.step_tokens > 0) {
    options.pipeline.least_step_tokens = flags.step_tokens;
    options.pipeline.most_step_tokens = flags.step_tokens;
  }
  options.speculation = flags.speculation == "off"      ? coordinator::Speculation::kOff
                        : flags.speculation == "always" ? coordinator::Speculation::kAlways
                                                        : coordinator::Speculation::kAuto;
  return options;
}

}  // namespace

void ChainFlags::add_to(CLI::App& command, const std::string& package_names) {
  command.add_option(package_names, package, "The package directory (see paceline compile)")
      ->required();
  add_chain_to(command);
}

void ChainFlags::add_chain_to(CLI::App& command) {
  auto* stages_option =
      command.add_option("--stages", stages, "Start this many worker processes here")
          ->check(CLI::Range(1U, 256U))
          ->capture_default_str();
  command.add_option("--workers", workers, "Use running workers instead: host:port,host:port,...")
      ->excludes(stages_option);
  command.add_option("--split", split,
                     "Layers per stage, in proportion: 10,20 gives the second twice as many");
  command
      .add_option(
          "--private-layers", private_layers,
          "Keep the embedding, so many layers at the model's begin and at its end, the head "
          "and the sampling in a process of this machine, beside --workers or --stages: "
          "they see activations of the layers between, no tokens and no text; 0: off")
      ->check(CLI::Range(0U, 4096U))
      ->capture_default_str();
  command.add_option("--profile", profile, "fast, or exact (f32, the same tokens in any batch)")
      ->capture_default_str();
  command
      .add_option("--engine", engine,
                  "paged: many sequences, shared prefixes; stateful: one at a time, as OpenVINO "
                  "GenAI runs a stream")
      ->check(CLI::IsMember({"paged", "stateful"}))
      ->capture_default_str();
  command
      .add_option("--link-precision", link_precision,
                  "Activations between stages as they are computed (native), or in int8 for slow "
                  "links: half the bytes of bf16, slightly other text")
      ->check(CLI::IsMember({"native", "int8"}))
      ->capture_default_str();
  command.add_option("--threads", threads, "Threads per stage; 0: the device's choice")
      ->capture_default_str();
  command
      .add_option("--ctx", context_tokens,
                  "Context in tokens, prompt and answer; 0: the model's, or what fits in memory")
      ->capture_default_str();
  command
      .add_option("--kv-memory", kv_memory_bytes,
                  "For the KV cache of all sequences, on each machine, e.g. 2GB; without it 1GB, "
                  "at most half of what the weights leave, but one context at least")
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--max-running", max_running, "Sequences computed at a time")
      ->check(CLI::Range(1U, 4096U))
      ->capture_default_str();
  command
      .add_option("--step-tokens", step_tokens,
                  "Rows of a step at most, the chunks of prompts; 0: by measured times, up to 512")
      ->check(CLI::Range(0U, 8192U))
      ->capture_default_str();
  add_speculation_to(command);
}

void ChainFlags::add_speculation_to(CLI::App& command) {
  auto* chosen =
      command
          .add_option("--speculation", speculation,
                      "auto: guess tokens where that pays; off; always: also where it does not")
          ->check(CLI::IsMember({"auto", "off", "always"}))
          ->capture_default_str();
  command.add_option("--drafts", drafts, "Guesses of a sequence in a step at most")
      ->check(CLI::Range(1U, 64U))
      ->capture_default_str();
  command
      .add_option("--drafts-ahead", drafts_ahead,
                  "Go on guessing while so many steps of guesses are not verified: for slow links")
      ->check(CLI::Range(0U, 8U))
      ->capture_default_str();
  command
      .add_option("--draft", draft,
                  "Guess with this package, too, in this process: a small model with the same "
                  "vocabulary; --speculation is then auto unless it is named")
      ->each([this, chosen](const std::string&) {
        if (chosen->count() == 0) speculation = "auto";
      });
  command
      .add_option("--draft-threads", draft_threads,
                  "Threads of the draft model; 0: the device's choice")
      ->capture_default_str();
}

Result<std::unique_ptr<ChainSession>> ChainSession::open(const ChainFlags& flags,
                                                         StepListener on_step) {
  std::unique_ptr<ChainSession> session(new ChainSession());
  PACELINE_RETURN_IF_ERROR(session->start(flags, std::move(on_step)));
  return session;
}

Status ChainSession::start(const ChainFlags& flags, StepListener on_step) {
  const TimePoint begin = clock_.now();
  package_ = flags.package;
  PACELINE_ASSIGN_OR_RETURN(manifest_, shard::read_manifest(package_));
  PACELINE_RETURN_IF_ERROR(check_text_files());
  if (manifest_.files.contains(kTokenizerFile)) {
    PACELINE_ASSIGN_OR_RETURN(tokenizer_, load_tokenizer(package_));
  }
  PACELINE_RETURN_IF_ERROR(load_draft_model(flags));
  PACELINE_ASSIGN_OR_RETURN(const auto settings, start_workers(flags));
  std::vector<std::string> addresses = settings.workers;
  if (!settings.home.empty()) addresses.push_back(settings.home);
  PACELINE_ASSIGN_OR_RETURN(
      auto pool, coordinator::WorkerPool::connect(transport_, clock_, addresses, own_name(),
                                                  Deadline::after(kConnectTimeout, clock_.now())));
  PACELINE_ASSIGN_OR_RETURN(auto plan,
                            coordinator::plan_chain(manifest_, pool->welcomes(), settings));
  coordinator::BatchOptions options = batch_options(flags, plan);
  options.vocabulary_size = manifest_.vocabulary_size;
  options.draft_model = drafter_.get();
  PACELINE_ASSIGN_OR_RETURN(options.end_tokens, read_end_tokens(package_));
  const std::size_t stages = plan.route.size();
  PACELINE_ASSIGN_OR_RETURN(chain_,
                            coordinator::Chain::start(std::move(pool), std::move(plan), clock_));
  chain_->limit(options.scheduler);
  options.why_no_grammars = chain_->why_no_grammars();
  options.why_no_means = chain_->why_no_means();
  options.mean_width = chain_->mean_width();
  if (on_step) {
    options.on_step = [on_step = std::move(on_step), &chain = *chain_](const auto& step) {
      on_step(chain, step);
    };
  }
  generator_ = std::make_unique<coordinator::BatchGenerator>(
      *chain_, stages, tokenizer_ ? &*tokenizer_ : nullptr, clock_, options);
  start_time_ = clock_.now() - begin;
  return {};
}

Result<coordinator::ChainSettings> ChainSession::start_workers(const ChainFlags& flags) {
  PACELINE_ASSIGN_OR_RETURN(auto settings, chain_settings(flags));
  settings.workers = split_at_commas(flags.workers);
  const std::uint32_t inner = settings.workers.empty() ? flags.stages : 0;
  const std::uint32_t home = flags.private_layers > 0 ? 1 : 0;
  if (inner + home == 0) return settings;
  PACELINE_ASSIGN_OR_RETURN(local_workers_,
                            coordinator::LocalWorkers::start(package_, inner + home));
  std::vector<std::string> local = local_workers_.addresses();
  if (home > 0) {
    settings.home = std::move(local.back());
    local.pop_back();
  }
  if (inner > 0) settings.workers = std::move(local);
  return settings;
}

Status ChainSession::load_draft_model(const ChainFlags& flags) {
  if (flags.draft.empty()) return {};
  if (flags.speculation == "off") {
    return fail(ErrorCode::kInvalidArgument,
                "--draft needs --speculation auto or always, it is off");
  }
  draft::DraftSettings settings;
  settings.package = flags.draft;
  settings.threads = flags.draft_threads;
  settings.context_tokens = flags.context_tokens;
  settings.most_lines = flags.max_running;
  PACELINE_ASSIGN_OR_RETURN(settings.profile, profile_of(flags));
  auto manifest = shard::read_manifest(settings.package);
  if (!manifest) return fail(manifest.error().with_context("--draft"));
  Status same = draft::check_vocabulary(*manifest, manifest_);
  if (same && tokenizer_ && manifest->files.contains(kTokenizerFile) &&
      manifest->files.at(kTokenizerFile) != manifest_.files.at(kTokenizerFile)) {
    PACELINE_ASSIGN_OR_RETURN(const auto tokenizer, load_tokenizer(settings.package));
    same = check_same_tokens(tokenizer, *tokenizer_);
  }
  if (!same) return fail(same.error().with_context(fmt::format("--draft {}", flags.draft)));
  auto drafter = draft::load_drafter(settings, *manifest, clock_);
  if (!drafter) return fail(drafter.error().with_context(fmt::format("--draft {}", flags.draft)));
  drafter_ = *std::move(drafter);
  return {};
}

/// The workers check what they read; these are read here only.
Status ChainSession::check_text_files() const {
  for (const auto& [name, entry] : manifest_.files) {
    if (name == shard::kGraphFile) continue;
    PACELINE_RETURN_IF_ERROR(shard::verify_file(package_, manifest_, name));
  }
  return {};
}

Result<const text::Tokenizer*> ChainSession::tokenizer() const {
  if (!tokenizer_) {
    return fail(ErrorCode::kNotFound,
                "{}: has no {}, so it cannot read text; give token ids (--prompt-ids)",
                package_.string(), kTokenizerFile);
  }
  return &*tokenizer_;
}

std::optional<int> ChainSession::process_id(const std::string& worker) const {
  const auto& addresses = local_workers_.addresses();
  const auto found = std::find(addresses.begin(), addresses.end(), worker);
  if (found == addresses.end()) return std::nullopt;
  return local_workers_.processes()[static_cast<std::size_t>(found - addresses.begin())].pid();
}

}  // namespace paceline::cli
