#include "serve/response_reply.h"

#include <utility>

#include "system/wall_clock.h"

namespace paceline::serve {
namespace {

/// What was taken where the request named nothing, so that the answer says it.
api::Json with_sampling(api::Json shown, const api::GenerationFields& asked,
                        const ServedModel& model) {
  const sampling::SamplingSpec spec = asked.sampling_spec(model.facts().sampling, 0);
  shown["temperature"] = spec.temperature;
  shown["top_p"] = spec.top_p;
  return shown;
}

/// Some templates want ids of one length: as many digits as a chat's answers have.
api::AnswerParserOptions numbered(api::AnswerParserOptions parsing) {
  parsing.call_id += "00";
  return parsing;
}

}  // namespace

ResponseReply::ResponseReply(Parts parts, api::AnswerParserOptions parsing, api::Json shown)
    : Reply(std::move(parts)),
      parser_(numbered(std::move(parsing))),
      tokens_(model().tokenizer(), asked().skip_special_tokens),
      writer_(head(), with_sampling(std::move(shown), asked(), model())) {}

void ResponseReply::give(const api::ResponseWriter::Events& events) {
  if (!asked().stream) return;
  std::string bytes;
  for (const api::Json& event : events) bytes += api::named_sse_event(event);
  if (!bytes.empty()) write(bytes);
}

void ResponseReply::add(std::size_t /*answer*/, std::span<const wire::Sample> samples,
                        std::string_view text) {
  std::vector<api::TokenEntry> entries;
  if (wants_logprobs()) entries = tokens_.push(samples, text);
  give(writer_.open());
  give(writer_.push(parser_.push(text), std::move(entries)));
  if (writer_.is_reasoning()) end_.reasoning_tokens += samples.size();
}

void ResponseReply::finish(std::size_t /*answer*/, const coordinator::Generation& generation) {
  std::vector<api::TokenEntry> entries;
  if (wants_logprobs()) entries = tokens_.finish(end_of(generation));
  give(writer_.open());
  give(writer_.push(parser_.finish(), std::move(entries)));
  end_.is_cut = generation.finish_reason == coordinator::FinishReason::kLength;
}

std::string ResponseReply::body(const api::Usage& usage) {
  end_.usage = usage;
  end_.at = system::unix_seconds();
  (void)writer_.finish(end_);
  return api::dump(writer_.response());
}

void ResponseReply::end_stream(const api::Usage& usage) {
  end_.usage = usage;
  end_.at = system::unix_seconds();
  give(writer_.finish(end_));
  exchange().end();
}

void ResponseReply::fail_stream(const api::ApiError& error) {
  give(writer_.open());
  give(writer_.fail(error));
  exchange().end();
}

}  // namespace paceline::serve
