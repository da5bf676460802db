// The flags by which generate, chat and bench get a chain, and the chain they get.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "coordinator/batch_generator.h"
#include "coordinator/chain.h"
#include "coordinator/chain_plan.h"
#include "coordinator/local_workers.h"
#include "draft/model_drafter.h"
#include "net/network_thread.h"
#include "net/tcp_transport.h"
#include "shard/manifest.h"
#include "text/tokenizer.h"

namespace paceline::cli {

struct ChainFlags {
  std::string package;
  std::uint32_t stages = 1;
  std::string workers;  ///< "host:port,..."; empty: local ones
  std::string split;    ///< "10,20"; empty: by bytes
  std::uint32_t private_layers = 0;
  std::string profile = "fast";
  std::string engine = "paged";
  std::string link_precision = "native";
  std::uint32_t threads = 0;
  std::uint32_t context_tokens = 0;
  std::uint64_t kv_memory_bytes = 0;
  std::uint32_t max_running = 64;
  std::uint32_t step_tokens = 0;
  std::string speculation = "auto";
  std::uint32_t drafts_ahead = 0;
  std::uint32_t drafts = 16;
  std::string draft;  ///< a package
  std::uint32_t draft_threads = 1;
  /// Answers that were not begun. Not a flag of all: who asks for itself sees to it that they are
  /// not too many.
  std::uint32_t max_waiting = 65536;

  /// `package_names`: how CLI11 is to know the package.
  void add_to(CLI::App& command, const std::string& package_names = "--package,-p");
  /// All but the package.
  void add_chain_to(CLI::App& command);

 private:
  void add_speculation_to(CLI::App& command);
};

/// A running chain with all it stands on. Destroyed in reverse: chain, transport, workers.
class ChainSession {
 public:
  using StepListener =
      std::function<void(const coordinator::Chain& chain, const coordinator::StepFacts& step)>;
  /// Opens the package, starts or dials workers, and waits until a token went through the chain.
  /// `on_step` as in BatchOptions.
  static Result<std::unique_ptr<ChainSession>> open(const ChainFlags& flags,
                                                    StepListener on_step = {});

  const shard::Manifest& manifest() const { return manifest_; }
  const std::filesystem::path& package() const { return package_; }
  /// kNotFound where the package has none: then only token ids go in and out.
  Result<const text::Tokenizer*> tokenizer() const;
  coordinator::Chain& chain() { return *chain_; }
  coordinator::BatchGenerator& generator() { return *generator_; }
  /// nullptr where there is no draft model.
  const draft::ModelDrafter* drafter() const { return drafter_.get(); }
  /// From start to ready.
  Duration start_time() const { return start_time_; }
  /// Of a local worker; none for a remote one.
  std::optional<int> process_id(const std::string& worker) const;

 private:
  ChainSession() : transport_(thread_) {}
  Status start(const ChainFlags& flags, StepListener on_step);
  /// Local ones as far as they are needed; what the chain is to be made of.
  Result<coordinator::ChainSettings> start_workers(const ChainFlags& flags);
  Status check_text_files() const;
  /// Checks that it speaks of the same tokens, and loads it.
  Status load_draft_model(const ChainFlags& flags);

  std::filesystem::path package_;
  shard::Manifest manifest_;
  std::optional<text::Tokenizer> tokenizer_;
  SteadyClock clock_;
  Duration start_time_ = {};
  coordinator::LocalWorkers local_workers_;
  net::NetworkThread thread_;
  net::TcpTransport transport_;
  std::unique_ptr<coordinator::Chain> chain_;
  std::unique_ptr<draft::ModelDrafter> drafter_;
  std::unique_ptr<coordinator::BatchGenerator> generator_;
};

}  // namespace paceline::cli
