#include "spec/speculator.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace paceline::spec {

Speculator::Speculator(SpeculatorOptions options) : options_(options), account_(options.length) {}

std::size_t Speculator::kind_of(std::uint32_t match) {
  return match < 4 ? 0 : match < 8 ? 1 : match < 16 ? 2 : 3;
}

void Speculator::open(LineId line, std::string_view salt) {
  const std::array<AcceptanceRate, kKinds> rates = {AcceptanceRate(0.5), AcceptanceRate(0.65),
                                                    AcceptanceRate(0.8), AcceptanceRate(0.9)};
  lines_.emplace(line, Line{std::string(salt), SuffixIndex(options_.own), 0, rates});
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
  if (best.length == 0) return {};
  AcceptanceRate& rate = state.rates[kind_of(best.length)];
  const std::uint32_t count = choose_draft_length(rate, account_, room, cost_, options_.length);
  if (count == 0) return {};
  if (other.length > own.length) {
    return {others->second.index.read(best.continuation, count), best.length};
  }
  return {state.own.read(best.continuation, count, assumed), best.length};
}

void Speculator::observe(LineId line, const DraftOutcome& outcome) {
  account_.settle(outcome, cost_);
  const auto found = lines_.find(line);
  if (found == lines_.end() || outcome.proposed == 0 || outcome.is_void) return;
  found->second.rates[kind_of(outcome.match)].observe(outcome.proposed, outcome.accepted);
}

void Speculator::finish(LineId line, std::span<const std::int64_t> tokens) {
  const auto found = lines_.find(line);
  if (found == lines_.end()) return;
  Recent& texts = recent(found->second.salt);
  texts.index.append(tokens);
  texts.index.end_text();
  lines_.erase(found);
}

}  // namespace paceline::spec
