#include "cli/local_chat.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "cli/conversation.h"
#include "cli/interrupt.h"
#include "cli/package_files.h"
#include "coordinator/answer_waiter.h"

namespace paceline::cli {
namespace {

class LocalConversation final : public Conversation {
 public:
  LocalConversation(ChainSession& session, ChatFormat format, const SamplingFlags& sampling,
                    std::string system)
      : session_(session),
        format_(std::move(format)),
        sampling_(sampling),
        system_(std::move(system)) {
    reset();
  }

  std::string greeting() const override {
    return fmt::format("{} over {} stages", session_.manifest().model.name,
                       session_.chain().stages().size());
  }

  void reset() override {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({"system", system_});
  }

  Status ask(const std::string& text) override {
    messages_.push_back({"user", text});
    auto answer = this->answer();
    if (!answer) {
      messages_.pop_back();
      return fail(std::move(answer).error());
    }
    messages_.push_back({"assistant", *std::move(answer)});
    return {};
  }

  bool may_go_on(const Error& error) const override {
    return error.code() == ErrorCode::kInvalidArgument;
  }

 private:
  Result<std::string> answer() {
    PACELINE_ASSIGN_OR_RETURN(
        const std::string prompt,
        format_.chat_template.render(messages_, {true, format_.bos_token, format_.eos_token, {}}));
    coordinator::GenerationRequest request;
    PACELINE_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, session_.tokenizer());
    PACELINE_ASSIGN_OR_RETURN(request.prompt, tokenizer->encode(prompt, false));
    PACELINE_ASSIGN_OR_RETURN(request.sampling,
                              sampling_.sampling_spec(session_.manifest().model.sampling));
    request.max_tokens = sampling_.max_tokens;
    request.stop = sampling_.stop;
    PACELINE_ASSIGN_OR_RETURN(auto generation, coordinator::generate(session_.generator(), request,
                                                                     show_piece, interrupt_flag()));
    end_answer(generation.finish_reason == coordinator::FinishReason::kCancelled);
    return std::move(generation.text);
  }

  ChainSession& session_;
  const ChatFormat format_;
  const SamplingFlags& sampling_;
  const std::string system_;
  std::vector<text::ChatMessage> messages_;
};

}  // namespace

Status chat_with_chain(const ChainFlags& chain, const SamplingFlags& sampling,
                       const std::string& system) {
  interrupt_flag();
  PACELINE_ASSIGN_OR_RETURN(const auto spec, sampling.sampling_spec());
  PACELINE_ASSIGN_OR_RETURN(auto format, load_chat_format(chain.package));
  PACELINE_ASSIGN_OR_RETURN(const auto session, ChainSession::open(chain));
  PACELINE_RETURN_IF_ERROR(sampling::check(spec, session->manifest().vocabulary_size));
  LocalConversation conversation(*session, std::move(format), sampling, system);
  return converse(conversation);
}

}  // namespace paceline::cli
