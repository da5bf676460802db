// paceline generate: a prompt in, streamed text out.
#include <fmt/core.h>

#include <cstdio>
#include <deque>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "base/json.h"
#include "cli/chain_flags.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/package_files.h"
#include "cli/report.h"
#include "cli/sampling_flags.h"
#include "coordinator/answer_waiter.h"
#include "system/files.h"

namespace paceline::cli {
namespace {

constexpr std::uint64_t kMaxPromptBytes = 64ULL << 20;

struct GenerateFlags {
  ChainFlags chain;
  SamplingFlags sampling;
  std::string prompt;
  std::string prompts_file;
  std::vector<std::int64_t> prompt_ids;
  bool apply_chat_template = false;
  bool ignore_eos = false;
  bool digests = false;
  std::optional<std::uint32_t> logprobs;
  bool prompt_logprobs = false;
  std::uint32_t choices = 1;
  std::uint32_t parallel = 1;
  bool json = false;
  bool quiet = false;
};

void show(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// The prompts, one after the other: of the command line, of the lines of a file or of standard
/// input as they come, or all of standard input.
class PromptSource {
 public:
  static Result<PromptSource> open(const GenerateFlags& flags) {
    PromptSource source;
    source.by_line_ = !flags.prompts_file.empty();
    if (!flags.prompt.empty() || !flags.prompt_ids.empty()) {
      source.lines_ = std::make_unique<std::istringstream>(flags.prompt);
    } else if (source.by_line_ && flags.prompts_file != "-") {
      PACELINE_ASSIGN_OR_RETURN(auto content,
                                system::read_text_file(flags.prompts_file, kMaxPromptBytes));
      source.lines_ = std::make_unique<std::istringstream>(std::move(content));
    }
    return source;
  }

  std::optional<std::string> next() {
    std::istream& input = lines_ ? *lines_ : std::cin;
    if (!by_line_) {
      if (std::exchange(is_done_, true)) return std::nullopt;
      return std::string(std::istreambuf_iterator<char>(input), {});
    }
    for (std::string line; std::getline(input, line);) {
      if (!line.empty()) return line;
    }
    return std::nullopt;
  }

 private:
  std::unique_ptr<std::istream> lines_;  ///< standard input where there is none
  bool by_line_ = false;
  bool is_done_ = false;
};

/// A line that is a JSON array of integers, as token ids.
std::optional<std::vector<std::int64_t>> as_token_ids(const std::string& line) {
  if (!line.starts_with('[')) return std::nullopt;
  return json_integers(nlohmann::json::parse(line, nullptr, false));
}

Result<std::vector<std::int64_t>> prompt_tokens(ChainSession& session, const GenerateFlags& flags,
                                                const std::string& prompt) {
  if (!flags.prompt_ids.empty()) return flags.prompt_ids;
  if (!flags.prompts_file.empty()) {
    if (auto ids = as_token_ids(prompt)) return *std::move(ids);
  }
  PACELINE_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, session.tokenizer());
  if (!flags.apply_chat_template) return tokenizer->encode(prompt, true);
  PACELINE_ASSIGN_OR_RETURN(const auto format, load_chat_format(session.package()));
  const text::ChatMessage message = {"user", prompt};
  PACELINE_ASSIGN_OR_RETURN(
      const std::string rendered,
      format.chat_template.render({&message, 1}, {true, format.bos_token, format.eos_token, {}}));
  return tokenizer->encode(rendered, false);
}

Result<coordinator::GenerationRequest> request_from(ChainSession& session,
                                                    const GenerateFlags& flags,
                                                    const std::string& prompt) {
  coordinator::GenerationRequest request;
  PACELINE_ASSIGN_OR_RETURN(request.prompt, prompt_tokens(session, flags, prompt));
  PACELINE_ASSIGN_OR_RETURN(request.sampling,
                            flags.sampling.sampling_spec(session.manifest().model.sampling));
  request.sampling.logprobs = flags.logprobs;
  if (flags.json && !flags.logprobs) request.sampling.logprobs = 0;
  request.max_tokens = flags.sampling.max_tokens;
  request.stop = flags.sampling.stop;
  request.ignore_eos = flags.ignore_eos;
  request.want_logits_digests = flags.digests;
  request.want_prompt_logprobs = flags.prompt_logprobs;
  request.choices = flags.choices;
  return request;
}

/// A prompt whose answers are on their way.
struct Asked {
  coordinator::GenerationRequest request;
  sched::RequestId id;
  std::shared_ptr<coordinator::AnswerWaiter> waiter;
};

class Generating {
 public:
  Generating(ChainSession& session, const GenerateFlags& flags)
      : session_(session), flags_(flags), streams_(!flags.json && flags.parallel == 1) {}

  /// As many prompts at once as the flags say; the answers in the order of the prompts.
  Status run(PromptSource& prompts) {
    bool is_open = true;
    while (is_open || !asked_.empty()) {
      if (is_open && asked_.size() < flags_.parallel && !interrupt_flag().load()) {
        const auto prompt = prompts.next();
        is_open = prompt.has_value();
        if (prompt) PACELINE_RETURN_IF_ERROR(ask(*prompt));
        continue;
      }
      if (asked_.empty()) return {};
      PACELINE_RETURN_IF_ERROR(answer_oldest());
      is_open = is_open && !interrupt_flag().load();
    }
    return {};
  }

 private:
  Status ask(const std::string& prompt) {
    Asked asked;
    PACELINE_ASSIGN_OR_RETURN(asked.request, request_from(session_, flags_, prompt));
    asked.waiter = std::make_shared<coordinator::AnswerWaiter>(
        flags_.choices, streams_ ? show : coordinator::ShowText());
    PACELINE_ASSIGN_OR_RETURN(asked.id, session_.generator().submit(asked.request, asked.waiter));
    asked_.push_back(std::move(asked));
    return {};
  }

  Status answer_oldest() {
    const Asked asked = std::move(asked_.front());
    asked_.pop_front();
    PACELINE_ASSIGN_OR_RETURN(const auto answers,
                              coordinator::wait_for_answers(session_.generator(), asked.id,
                                                            *asked.waiter, interrupt_flag()));
    for (std::uint32_t choice = 0; choice < answers.size(); ++choice) {
      PACELINE_RETURN_IF_ERROR(tell(asked.request, choice, answers[choice]));
    }
    return {};
  }

  Status tell(const coordinator::GenerationRequest& request, std::uint32_t choice,
              const coordinator::Generation& generation) {
    if (flags_.json) {
      auto json = to_json(generation);
      json["prompt_ids"] = request.prompt;
      json["choice"] = choice;
      PACELINE_ASSIGN_OR_RETURN(json["chain"], chain_json(session_));
      show(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
      return {};
    }
    if (!streams_ || choice > 0) show(generation.text);
    show("\n");
    if (flags_.quiet) return {};
    PACELINE_ASSIGN_OR_RETURN(const auto text, summary(session_, generation));
    fmt::print(stderr, "\n{}", text);
    return {};
  }

  ChainSession& session_;
  const GenerateFlags& flags_;
  const bool streams_;
  std::deque<Asked> asked_;
};

Status generate(const GenerateFlags& flags) {
  interrupt_flag();
  PACELINE_RETURN_IF_ERROR(flags.sampling.sampling_spec());
  PACELINE_ASSIGN_OR_RETURN(auto prompts, PromptSource::open(flags));
  PACELINE_ASSIGN_OR_RETURN(const auto session, ChainSession::open(flags.chain));
  return Generating(*session, flags).run(prompts);
}

}  // namespace

void add_generate_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<GenerateFlags>();
  // The same command gives the same text, also in the profile fast, where it depends on what is
  // computed together: nothing of that follows the time that something took.
  flags->chain.step_tokens = 512;
  flags->chain.speculation = "off";
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt over a chain of stages");
  flags->chain.add_to(*command);
  flags->sampling.add_to(*command);
  command->add_option("prompt,--prompt", flags->prompt, "The prompt; standard input without it");
  command->add_option("--prompts", flags->prompts_file,
                      "A file with one prompt per line, - for standard input; a line [1,2,3] is "
                      "token ids");
  command->add_option("--prompt-ids", flags->prompt_ids, "The prompt as token ids: 1,2,3")
      ->delimiter(',');
  command->add_flag("--chat", flags->apply_chat_template,
                    "Ask the prompt as a user's message, by the chat template");
  command->add_flag("--ignore-eos", flags->ignore_eos, "Do not stop at the model's end token");
  command->add_flag("--digests", flags->digests,
                    "With --json: a digest of each token's logits, to compare runs bitwise");
  command
      ->add_option("--logprobs", flags->logprobs,
                   "With --json: the log-probabilities of this many likeliest tokens, too")
      ->check(CLI::Range(0U, sampling::SamplingSpec::kMaxLogprobs));
  command->add_flag("--prompt-logprobs", flags->prompt_logprobs,
                    "With --json: log-probabilities of the prompt's tokens, too");
  command->add_option("--n", flags->choices, "Answers to each prompt, by noise of their own")
      ->check(CLI::Range(1U, 1024U))
      ->capture_default_str();
  command
      ->add_option("--parallel", flags->parallel,
                   "With --prompts: so many of them at once, answered in their order")
      ->check(CLI::Range(1U, 4096U))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "One JSON object per answer, with timings");
  command->add_flag("--quiet", flags->quiet, "The text only");
  command->callback([flags, &done] { done = generate(*flags); });
}

}  // namespace paceline::cli
