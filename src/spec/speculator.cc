#include "spec/speculator.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace paceline::spec {
namespace {

/// That all drafts of a step are right: beyond this a model's time is well spent on the next ones.
constexpr double kLikely = 0.3;

}  // namespace

Speculator::Speculator(SpeculatorOptions options, DraftModel* model)
    : options_(options), model_(model), account_(options.length) {}

std::size_t Speculator::kind_of(std::uint32_t match) {
  if (match == kModelMatch) return kModelKind;
  return match < 4 ? 0 : match < 8 ? 1 : match < 16 ? 2 : 3;
}

void Speculator::open(LineId line, std::string_view salt) {
  const std::array<AcceptanceRate, kKinds> rates = {AcceptanceRate(0.5), AcceptanceRate(0.65),
                                                    AcceptanceRate(0.8), AcceptanceRate(0.9),
                                                    AcceptanceRate(0.7)};
  lines_.emplace(line, Line{std::string(salt), SuffixIndex(options_.own), 0, rates});
  if (model_ != nullptr) model_->open(line);
}

Speculator::Recent& Speculator::recent(const std::string& salt) {
  const auto found = recent_.try_emplace(salt, Recent{SuffixIndex(options_.recent), 0}).first;
  found->second.last_use = ++uses_;
  if (recent_.size() > options_.most_salts) {
    const auto oldest = std::min_element(
        recent_.begin(), recent_.end(),
        [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; });
    recent_.erase(oldest);
  }
  return found->second;
}

StepCost Speculator::cost_of(std::uint32_t match) const {
  StepCost cost = cost_;
  // Where steps have no measured cost, guesses have none either.
  if (match == kModelMatch && model_ != nullptr && !cost.points.empty()) {
    cost.draft_us = model_->guess_us();
  }
  return cost;
}

/// None: the model has nothing and will not have it soon, or it does not pay.
std::optional<Draft> Speculator::ask_model(LineId line, std::span<const std::int64_t> known,
                                           std::span<const std::int64_t> assumed,
                                           const DraftRoom& room) {
  AcceptanceRate& rate = lines_.at(line).rates[kModelKind];
  GuessSize size;
  size.count = choose_draft_length(rate, account_, room, cost_of(kModelMatch), options_.length);
  if (size.count == 0) return std::nullopt;
  // It goes on while these are verified, where they are likely all right: then the text has one
  // token more, which it must guess too, and the next guesses follow.
  const bool is_likely = std::pow(rate.rate(), size.count) > kLikely;
  size.ahead = is_likely ? size.count + 1 : 0;
  Guess guess = model_->guess(line, known, assumed, size);
  if (!guess.is_coming && guess.tokens.empty()) return std::nullopt;
  return Draft{std::move(guess.tokens), kModelMatch, guess.is_coming};
}

Draft Speculator::propose(LineId line, std::span<const std::int64_t> known,
                          std::span<const std::int64_t> assumed, const DraftRoom& room) {
  const auto found = lines_.find(line);
  if (found == lines_.end() || room.most == 0) return {};
  Line& state = found->second;
  if (state.known < known.size()) state.own.append(known.subspan(state.known));
  state.known = std::max(state.known, known.size());

  const auto window = std::max(options_.own.longest_match, options_.recent.longest_match);
  std::vector<std::int64_t> context;
  const std::size_t of_known =
      std::min<std::size_t>(known.size(), window - std::min<std::size_t>(window, assumed.size()));
  context.assign(known.end() - static_cast<std::ptrdiff_t>(of_known), known.end());
  context.insert(context.end(), assumed.begin(), assumed.end());

  const SuffixMatch own = state.own.find(context);
  const auto others = recent_.find(state.salt);
  const SuffixMatch other =
      others == recent_.end() ? SuffixMatch() : others->second.index.find(context);
  const SuffixMatch& best = other.length > own.length ? other : own;
  const double found_rate = best.length > 0 ? state.rates[kind_of(best.length)].rate() : 0;
  if (model_ != nullptr && state.rates[kModelKind].rate() >= found_rate) {
    if (auto draft = ask_model(line, known, assumed, room)) return *std::move(draft);
  }
  if (best.length == 0) return {};
  AcceptanceRate& rate = state.rates[kind_of(best.length)];
  const std::uint32_t count = choose_draft_length(rate, account_, room, cost_, options_.length);
  if (count == 0) return {};
  if (other.length > own.length) {
    return {others->second.index.read(best.continuation, count), best.length, false};
  }
  return {state.own.read(best.continuation, count, assumed), best.length, false};
}

void Speculator::observe(LineId line, const DraftOutcome& outcome) {
  account_.settle(outcome, cost_of(outcome.match));
  const auto found = lines_.find(line);
  if (found == lines_.end() || outcome.proposed == 0 || outcome.is_void) return;
  found->second.rates[kind_of(outcome.match)].observe(outcome.proposed, outcome.accepted);
}

void Speculator::finish(LineId line, std::span<const std::int64_t> tokens) {
  const auto found = lines_.find(line);
  if (found == lines_.end()) return;
  if (model_ != nullptr) model_->finish(line);
  Recent& texts = recent(found->second.salt);
  texts.index.append(tokens);
  texts.index.end_text();
  lines_.erase(found);
}

}  // namespace paceline::spec
