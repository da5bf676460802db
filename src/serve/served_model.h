// One model that requests can name: its chain, its tokenizer, its template.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/sampling_defaults.h"
#include "coordinator/batch_generator.h"
#include "obs/metrics.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace paceline::serve {

struct ModelFacts {
  std::int64_t created = 0;  ///< Unix seconds
  std::uint32_t context_tokens = 0;
  std::uint64_t vocabulary_size = 0;
  SamplingDefaults sampling;
  std::set<std::int64_t> end_tokens;
  std::uint32_t kv_blocks = 0;
  std::uint32_t stages = 0;
};

struct ChatFormat {
  text::ChatTemplate chat_template;
  std::string source;  ///< of the template: it shows how tools are called
  std::string bos_token;
  std::string eos_token;
};

/// Thread-safe.
class ServedModel {
 public:
  struct Parts {
    ModelFacts facts;
    coordinator::BatchGenerator* generator = nullptr;
    const text::Tokenizer* tokenizer =
        nullptr;  ///< null: only token ids go in, and no text comes out
    std::optional<ChatFormat> chat;
    obs::ModelMetrics* metrics = nullptr;  ///< null: nothing is counted
    std::shared_ptr<void> owner =
        {};  ///< keeps the generator and the tokenizer alive; see ModelReaper
  };
  explicit ServedModel(Parts parts) : parts_(std::move(parts)) {}
  /// What was measured by looking is 0 from then on.
  ~ServedModel();
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  const ModelFacts& facts() const { return parts_.facts; }
  const text::Tokenizer* tokenizer() const { return parts_.tokenizer; }
  const ChatFormat* chat() const { return parts_.chat ? &*parts_.chat : nullptr; }

  /// As BatchGenerator::submit.
  Result<sched::RequestId> submit(coordinator::GenerationRequest request,
                                  std::shared_ptr<coordinator::AnswerListener> listener);
  void cancel(sched::RequestId request) { parts_.generator->cancel(request); }
  /// All that is under way fails with `reason`.
  void end_all(Error reason);
  obs::ModelMetrics* metrics() const { return parts_.metrics; }
  /// What is measured by looking: requests, KV, the stages' use since the last look.
  void look();

  /// Told by whoever meets it: a chain that has failed answers nothing more.
  void note_failure(const Error& error);
  std::optional<Error> failure() const;

 private:
  Parts parts_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
};

}  // namespace paceline::serve
