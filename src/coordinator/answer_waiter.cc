#include "coordinator/answer_waiter.h"

#include <utility>

namespace paceline::coordinator {

AnswerWaiter::AnswerWaiter(std::uint32_t choices, ShowText on_text)
    : choices_(choices), on_text_(std::move(on_text)) {}

void AnswerWaiter::on_tokens(std::uint32_t choice, std::span<const wire::Sample>,
                             std::string_view text) {
  if (choice == 0 && on_text_ && !text.empty()) on_text_(text);
}

void AnswerWaiter::on_finished(std::uint32_t choice, const Generation& generation) {
  const std::lock_guard lock(mutex_);
  answers_[choice] = generation;
  changed_.notify_all();
}

void AnswerWaiter::on_failed(const Error& error) {
  const std::lock_guard lock(mutex_);
  failure_ = error;
  changed_.notify_all();
}

std::optional<Result<std::vector<Generation>>> AnswerWaiter::wait_for(Duration time) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return failure_ || answers_.size() == choices_; };
  if (!changed_.wait_for(lock, time, is_over)) return std::nullopt;
  if (failure_) return fail(*failure_);
  std::vector<Generation> all;
  for (const auto& [choice, generation] : answers_) all.push_back(generation);
  return all;
}

Result<std::vector<Generation>> wait_for_answers(BatchGenerator& generator,
                                                 sched::RequestId request, AnswerWaiter& waiter,
                                                 const std::atomic<bool>& cancelled) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  while (true) {
    if (auto result = waiter.wait_for(kLook)) return *std::move(result);
    if (cancelled.load()) generator.cancel(request);
  }
}

Result<Generation> generate(BatchGenerator& generator, GenerationRequest request, ShowText on_text,
                            const std::atomic<bool>& cancelled) {
  request.choices = 1;
  const auto waiter = std::make_shared<AnswerWaiter>(1, std::move(on_text));
  PACELINE_ASSIGN_OR_RETURN(const auto id, generator.submit(std::move(request), waiter));
  PACELINE_ASSIGN_OR_RETURN(auto answers, wait_for_answers(generator, id, *waiter, cancelled));
  return std::move(answers.front());
}

}  // namespace paceline::coordinator
