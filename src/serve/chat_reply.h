// The answer to POST /v1/chat/completions.
#pragma once

#include <vector>

#include "api/answer_parser.h"
#include "serve/reply.h"

namespace paceline::serve {

class ChatReply final : public Reply {
 public:
  ChatReply(Parts parts, const api::AnswerParserOptions& parsing);

 private:
  struct Choice {
    api::AnswerParser parser;
    ChoiceTokens tokens;
    api::ChatAnswer answer;  ///< as far as it is there
    bool has_opened = false;
  };

  void add(std::size_t answer, std::span<const wire::Sample> samples,
           std::string_view text) override;
  void finish(std::size_t answer, const coordinator::Generation& generation) override;
  std::string body(const api::Usage& usage) override;
  bool is_chat() const override { return true; }

  /// To the stream, or to what is answered at the end.
  void give(std::size_t answer, api::AnswerDelta delta, std::vector<api::TokenEntry> entries);
  void open(std::size_t answer);

  std::vector<Choice> choices_;
};

}  // namespace paceline::serve
