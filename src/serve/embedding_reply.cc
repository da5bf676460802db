#include "serve/embedding_reply.h"

#include <utility>

#include "api/embedding_writer.h"

namespace paceline::serve {

EmbeddingReply::EmbeddingReply(Parts parts, std::vector<api::TokenIds> inputs, bool is_base64)
    : Reply(std::move(parts)),
      is_base64_(is_base64),
      items_(inputs.size()),
      inputs_(std::move(inputs)) {}

Status EmbeddingReply::begin(coordinator::GenerationRequest like) {
  {
    const std::lock_guard lock(inputs_mutex_);
    like_ = std::move(like);
  }
  return fill(false);
}

Status EmbeddingReply::fill(bool has_place) {
  const std::lock_guard lock(inputs_mutex_);
  while (next_ < inputs_.size() && next_ - ended_ < kAtOnce && !is_over()) {
    coordinator::GenerationRequest request = like_;
    request.prompt = inputs_[next_];
    request.keeps_place = std::exchange(has_place, false);
    auto submitted = submit(next_, std::move(request));
    if (!submitted) {
      const bool can_wait = submitted.error().code() == ErrorCode::kResourceExhausted;
      // Those under way will give their places.
      if (can_wait && next_ > ended_) return {};
      return submitted;
    }
    inputs_[next_++] = {};
  }
  return {};
}

void EmbeddingReply::go_on() {
  {
    const std::lock_guard lock(inputs_mutex_);
    ++ended_;
  }
  if (!is_over()) {
    if (const auto asked = fill(true); !asked) fail(api::from_error(asked.error()));
  }
  if (is_over()) give_up_rest();
}

void EmbeddingReply::give_up_rest() {
  std::size_t rest = 0;
  {
    const std::lock_guard lock(inputs_mutex_);
    rest = inputs_.size() - next_;
    next_ = inputs_.size();
    ended_ += rest;
  }
  abandon(rest);
}

/// Nothing is generated.
void EmbeddingReply::add(std::size_t /*answer*/, std::span<const wire::Sample> /*samples*/,
                         std::string_view /*text*/) {}

void EmbeddingReply::finish(std::size_t answer, const coordinator::Generation& generation) {
  std::vector<float> vector = generation.mean;
  if (!api::normalise(vector)) {
    return fail_locked(api::from_error(
        Error(ErrorCode::kInternal, "the mean of a prompt's hidden states has no direction")));
  }
  items_[answer] = api::embedding_item(answer, vector, is_base64_);
}

std::string EmbeddingReply::body(const api::Usage& usage) {
  return api::embedding_list(items_, head().model, usage);
}

}  // namespace paceline::serve
