// The answer to POST /v1/responses.
#pragma once

#include "api/answer_parser.h"
#include "api/response_writer.h"
#include "serve/reply.h"

namespace paceline::serve {

/// A stream ends with its response, whatever becomes of it, and not with [DONE]; one that fails
/// says so in its last event, so that it may end like any other.
class ResponseReply final : public Reply {
 public:
  /// `shown`: what the response repeats of the request.
  ResponseReply(Parts parts, api::AnswerParserOptions parsing, api::Json shown);

 private:
  void add(std::size_t answer, std::span<const wire::Sample> samples,
           std::string_view text) override;
  void finish(std::size_t answer, const coordinator::Generation& generation) override;
  std::string body(const api::Usage& usage) override;
  bool is_chat() const override { return true; }
  void end_stream(const api::Usage& usage) override;
  void fail_stream(const api::ApiError& error) override;

  void give(const api::ResponseWriter::Events& events);

  api::AnswerParser parser_;
  ChoiceTokens tokens_;
  api::ResponseWriter writer_;
  api::ResponseWriter::End end_ = {};
};

}  // namespace paceline::serve
