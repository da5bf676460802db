// Drafts by looking things up, in the text itself and in recent texts, and from a draft model where
// there is one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "spec/draft_length.h"
#include "spec/draft_model.h"
#include "spec/draft_source.h"
#include "spec/suffix_index.h"

namespace paceline::spec {

struct SpeculatorOptions {
  DraftLengthOptions length;
  SuffixIndexOptions own = {2, 32, 8, 1U << 15};
  /// Per salt. A longer anchor: other texts say less.
  SuffixIndexOptions recent = {3, 32, 8, 1U << 18};
  std::uint32_t most_salts = 16;  ///< the one unused for longest is forgotten
};

/// Thread-compatible. Memory is bounded by the options and the number of open lines.
class Speculator final : public DraftSource {
 public:
  /// `model` may be nullptr; else it must outlive the speculator.
  explicit Speculator(SpeculatorOptions options, DraftModel* model = nullptr);

  /// What a step costs now; before the first call every step costs the same, so drafts look free.
  void set_cost(StepCost cost) { cost_ = std::move(cost); }

  void open(LineId line, std::string_view salt) override;
  Draft propose(LineId line, std::span<const std::int64_t> known,
                std::span<const std::int64_t> assumed, const DraftRoom& room) override;
  void observe(LineId line, const DraftOutcome& outcome) override;
  void finish(LineId line, std::span<const std::int64_t> tokens) override;

  const DraftAccount& account() const { return account_; }
  std::size_t open_lines() const { return lines_.size(); }

 private:
  /// Matches of 2-3, 4-7, 8-15 and more tokens (the longer, the likelier it goes on so), and what
  /// the model guesses.
  static constexpr std::size_t kKinds = 5;
  static constexpr std::size_t kModelKind = 4;
  static constexpr std::uint32_t kModelMatch = UINT32_MAX;
  struct Line {
    std::string salt;
    SuffixIndex own;
    std::size_t known = 0;  ///< tokens that `own` has
    std::array<AcceptanceRate, kKinds> rates;
  };
  struct Recent {
    SuffixIndex index;
    std::uint64_t last_use = 0;
  };

  static std::size_t kind_of(std::uint32_t match);
  Recent& recent(const std::string& salt);
  /// What a step costs with drafts of this kind.
  StepCost cost_of(std::uint32_t match) const;
  std::optional<Draft> ask_model(LineId line, std::span<const std::int64_t> known,
                                 std::span<const std::int64_t> assumed, const DraftRoom& room);

  const SpeculatorOptions options_;
  DraftModel* const model_;
  StepCost cost_;
  DraftAccount account_;
  std::map<LineId, Line> lines_;
  std::map<std::string, Recent> recent_;
  std::uint64_t uses_ = 0;
};

}  // namespace paceline::spec
