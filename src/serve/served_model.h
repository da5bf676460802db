// One model that requests can name: its chain, its tokenizer, its template.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/sampling_defaults.h"
#include "coordinator/batch_generator.h"
#include "obs/activity.h"
#include "obs/metrics.h"
#include "serve/model_load.h"
#include "serve/stage_view.h"
#include "text/chat_template.h"
#include "text/grammar.h"
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

/// Of all KV blocks, the share that is not free, 0 to 1.
double kv_use(const ModelLoad& load, const ModelFacts& facts);

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
    /// Its workers by address, and whether they answer; may be empty.
    std::function<std::map<std::string, bool>()> nodes = {};
    std::function<std::vector<StageView>()> stages = {};  ///< empty: nothing is known of them
    std::shared_ptr<void> owner =
        {};  ///< keeps the generator and the tokenizer alive; see ModelReaper
  };
  /// Clients ask for a few forms again and again.
  static constexpr std::size_t kKeptGrammars = 32;

  explicit ServedModel(Parts parts);
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
  /// Whether the last stage can compile it, by compiling it here, for the first of those alike.
  /// kInvalidArgument where it is none or meets a limit, or no stage masks tokens.
  Status check_grammar(const GrammarSpec& spec);
  /// As BatchGenerator: whether there are means of prompts, and why not; how many values they have.
  Status check_means() const { return parts_.generator->check_means(); }
  std::uint64_t mean_width() const { return parts_.generator->mean_width(); }
  /// All that is under way fails with `reason`.
  void end_all(Error reason);
  obs::ModelMetrics* metrics() const { return parts_.metrics; }
  obs::Activity& activity() { return activity_; }
  ModelLoad load();
  std::vector<StageView> stages() const;
  /// Gives the metrics what is measured by looking: requests, KV, the stages' time. Anybody may, as
  /// often as he likes.
  void look();

  /// By address, whether they answer.
  std::map<std::string, bool> nodes() const;

  /// Told by whoever meets it: a chain that has failed answers nothing more.
  void note_failure(const Error& error);
  /// Also one that nobody has met yet: the chain is asked.
  std::optional<Error> failure();

 private:
  /// Adds what was since the last time.
  void count_stages(const ModelLoad& now);

  Parts parts_;
  obs::Activity activity_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
  std::vector<double> stage_busy_s_;
  std::mutex look_mutex_;  ///< of what follows; locked before mutex_
  ModelLoad counted_;      ///< what the metrics have been told
  LoadWindow window_;
  std::mutex grammar_mutex_;
  std::optional<text::GrammarVocabulary> vocabulary_;  ///< made for the first grammar
  std::deque<GrammarSpec> good_;                       ///< the latest that compiled
};

}  // namespace paceline::serve
