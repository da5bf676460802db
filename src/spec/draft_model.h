// A model that continues texts, as those see it who want drafts.
//
// It works beside them, on a thread of its own: what is asked for is there, or coming, or will not
// come. The interface knows no engine; src/draft has the one that runs one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sampling/sampling_spec.h"
#include "spec/draft_source.h"

namespace paceline::spec {

struct GuessSize {
  std::uint32_t count = 0;  ///< at least one
  std::uint32_t ahead = 0;  ///< and so many more, to be ready when these are verified
};

struct Guess {
  std::vector<std::int64_t> tokens;  ///< fewer than were asked for where the text ends
  bool is_coming = false;            ///< the listener will hear of it
};

/// Of the caller's calls one at a time.
class DraftModel {
 public:
  virtual ~DraftModel() = default;
  /// How the tokens are chosen in the lines opened next, the answers to one prompt, each a choice
  /// of its own from sampling.choice on: guesses are drawn with the noise that will judge them.
  virtual void expect(const sampling::SamplingSpec& sampling, std::uint32_t prompt_tokens) = 0;
  virtual void open(LineId line) = 0;
  /// What follows `known` and then `assumed`. Nothing, and nothing coming, where the model cannot
  /// follow the line, or is far behind it.
  virtual Guess guess(LineId line, std::span<const std::int64_t> known,
                      std::span<const std::int64_t> assumed, const GuessSize& size) = 0;
  virtual void finish(LineId line) = 0;
  /// How long one more guess takes, of late; 0: not known yet.
  virtual double guess_us() const = 0;
  /// Called from another thread, with no lock of the model held, when guesses have come. Setting
  /// another one waits for a call under way.
  virtual void set_listener(std::function<void()> listener) = 0;
};

}  // namespace paceline::spec
