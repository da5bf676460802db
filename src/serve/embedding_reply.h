// The answer to POST /v1/embeddings.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "api/prompt_text.h"
#include "serve/reply.h"

namespace paceline::serve {

/// A list may be longer than the queue: so many texts are under way at a time, and each that ends
/// gives its place to the next one. Where the first finds room, all are answered.
class EmbeddingReply final : public Reply {
 public:
  /// Of one request: enough to fill the steps, and not all that others wait for.
  static constexpr std::size_t kAtOnce = 128;

  EmbeddingReply(Parts parts, std::vector<api::TokenIds> inputs, bool is_base64);

  /// Asks for the first ones; all are asked as `like` says. As Reply::submit of the first.
  Status begin(coordinator::GenerationRequest like);

 private:
  void add(std::size_t answer, std::span<const wire::Sample> samples,
           std::string_view text) override;
  void finish(std::size_t answer, const coordinator::Generation& generation) override;
  std::string body(const api::Usage& usage) override;
  bool is_chat() const override { return false; }
  void go_on() override;

  /// As many as may be under way; the first takes the place of one that has ended.
  Status fill(bool has_place);
  /// What was not asked for yet never will be.
  void give_up_rest();

  const bool is_base64_;
  std::vector<std::string> items_;  ///< of the answer, in its form
  std::mutex inputs_mutex_;         ///< of what follows; taken before the mutexes of Reply
  std::vector<api::TokenIds> inputs_;
  coordinator::GenerationRequest like_;
  std::size_t next_ = 0;   ///< input to be asked for
  std::size_t ended_ = 0;  ///< of those asked for
};

}  // namespace paceline::serve
