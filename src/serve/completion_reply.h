// The answer to POST /v1/completions.
#pragma once

#include <string>
#include <vector>

#include "serve/reply.h"

namespace paceline::serve {

class CompletionReply final : public Reply {
 public:
  struct Prompt {
    std::vector<std::int64_t> tokens;
    std::string echo;  ///< its text; empty where it is not asked for
  };
  CompletionReply(Parts parts, std::vector<Prompt> prompts, bool echoes);

 private:
  struct Choice {
    ChoiceTokens tokens;
    api::CompletionAnswer answer;  ///< as far as it is there, or not yet sent
    std::size_t shown_characters = 0;
  };

  void add(std::size_t answer, std::span<const wire::Sample> samples,
           std::string_view text) override;
  void finish(std::size_t answer, const coordinator::Generation& generation) override;
  std::string body(const api::Usage& usage) override;
  bool is_chat() const override { return false; }

  const Prompt& prompt_of(std::size_t answer) const { return prompts_[answer / asked().choices]; }
  /// The scores of a prompt are known at the end only, and come first.
  bool waits_for_scores() const { return echoes_ && wants_logprobs(); }
  void send_pending(Choice& choice);
  std::vector<api::TokenEntry> prompt_entries(std::size_t answer,
                                              const coordinator::Generation& generation) const;

  const std::vector<Prompt> prompts_;
  const bool echoes_;
  std::vector<Choice> choices_;
};

}  // namespace paceline::serve
