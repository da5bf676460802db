// Asking a BatchGenerator and waiting for what comes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "coordinator/batch_generator.h"

namespace paceline::coordinator {

using ShowText = std::function<void(std::string_view)>;

/// Gathers the answers of one request. Thread-safe.
class AnswerWaiter final : public AnswerListener {
 public:
  /// `on_text` (or nothing) gets the first answer's text as it comes, on the generator's thread.
  AnswerWaiter(std::uint32_t choices, ShowText on_text);

  void on_tokens(std::uint32_t choice, std::span<const wire::Sample> samples,
                 std::string_view text) override;
  void on_finished(std::uint32_t choice, const Generation& generation) override;
  void on_failed(const Error& error) override;

  /// All answers, in the order of their numbers; none where they are not there in `time`.
  std::optional<Result<std::vector<Generation>>> wait_for(Duration time);

 private:
  const std::uint32_t choices_;
  const ShowText on_text_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, Generation> answers_;
  std::optional<Error> failure_;
};

/// Waits for the answers of `request`, and cancels it once `cancelled` is set.
Result<std::vector<Generation>> wait_for_answers(BatchGenerator& generator,
                                                 sched::RequestId request, AnswerWaiter& waiter,
                                                 const std::atomic<bool>& cancelled);

/// Asks for one answer and waits for it.
Result<Generation> generate(BatchGenerator& generator, GenerationRequest request, ShowText on_text,
                            const std::atomic<bool>& cancelled);

}  // namespace paceline::coordinator
