// paceline generate: a prompt in, streamed text out.
#include <fmt/core.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "cli/chain_flags.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/package_files.h"
#include "cli/report.h"
#include "cli/sampling_flags.h"
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
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_array()) return std::nullopt;
  std::vector<std::int64_t> ids;
  for (const auto& id : json) {
    if (!id.is_number_integer()) return std::nullopt;
    ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

Status check_ids(const std::vector<std::int64_t>& ids, std::uint64_t vocabulary_size) {
  for (const std::int64_t id : ids) {
    if (id < 0 || static_cast<std::uint64_t>(id) >= vocabulary_size) {
      return fail(ErrorCode::kInvalidArgument, "the prompt has token {}, expected 0 to {}", id,
                  vocabulary_size - 1);
    }
  }
  return {};
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
  const std::uint64_t vocabulary_size = session.manifest().vocabulary_size;
  coordinator::GenerationRequest request;
  PACELINE_ASSIGN_OR_RETURN(request.prompt, prompt_tokens(session, flags, prompt));
  PACELINE_RETURN_IF_ERROR(check_ids(request.prompt, vocabulary_size));
  PACELINE_ASSIGN_OR_RETURN(request.sampling,
                            flags.sampling.sampling_spec(session.manifest().model.sampling));
  request.sampling.logprobs = flags.logprobs;
  if (flags.json && !flags.logprobs) request.sampling.logprobs = 0;
  PACELINE_RETURN_IF_ERROR(sampling::check(request.sampling, vocabulary_size));
  request.max_tokens = flags.sampling.max_tokens;
  request.stop = flags.sampling.stop;
  request.ignore_eos = flags.ignore_eos;
  request.want_logits_digests = flags.digests;
  request.want_prompt_logprobs = flags.prompt_logprobs;
  return request;
}

Status generate_one(ChainSession& session, const GenerateFlags& flags,
                    const coordinator::GenerationRequest& request) {
  PACELINE_ASSIGN_OR_RETURN(
      const auto generation,
      coordinator::generate(
          session.generator(), request, flags.json ? std::function<void(std::string_view)>() : show, interrupt_flag()));
  if (flags.json) {
    auto json = to_json(generation);
    json["prompt_ids"] = request.prompt;
    json["choice"] = request.sampling.choice;
    PACELINE_ASSIGN_OR_RETURN(json["chain"], chain_json(session));
    show(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return {};
  }
  show("\n");
  if (flags.quiet) return {};
  PACELINE_ASSIGN_OR_RETURN(const auto text, summary(session, generation));
  fmt::print(stderr, "\n{}", text);
  return {};
}

Status generate(const GenerateFlags& flags) {
  interrupt_flag();
  PACELINE_RETURN_IF_ERROR(flags.sampling.sampling_spec());
  PACELINE_ASSIGN_OR_RETURN(auto prompts, PromptSource::open(flags));
  PACELINE_ASSIGN_OR_RETURN(const auto session, ChainSession::open(flags.chain));
  while (!interrupt_flag().load()) {
    const auto prompt = prompts.next();
    if (!prompt) break;
    PACELINE_ASSIGN_OR_RETURN(auto request, request_from(*session, flags, *prompt));
    for (std::uint32_t choice = 0; choice < flags.choices && !interrupt_flag().load(); ++choice) {
      request.sampling.choice = choice;
      PACELINE_RETURN_IF_ERROR(generate_one(*session, flags, request));
    }
  }
  return {};
}

}  // namespace

void add_generate_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<GenerateFlags>();
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
  command->add_flag("--json", flags->json, "One JSON object per answer, with timings");
  command->add_flag("--quiet", flags->quiet, "The text only");
  command->callback([flags, &done] { done = generate(*flags); });
}

}  // namespace paceline::cli
