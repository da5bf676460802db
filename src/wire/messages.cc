#include "wire/messages.h"

#include <array>

namespace paceline::wire {
namespace {

// Indexed by the kind's number.
constexpr std::array<std::string_view, 17> kNames = {
    "none",          "hello",   "welcome",     "assign_stage", "stage_ready",  "link_stage",
    "link_accepted", "step",    "step_result", "ping",         "pong",         "fault",
    "release_chain", "goodbye", "read_piece",  "piece",        "step_sampling"};
static_assert(std::variant_size_v<Message> + 1 == kNames.size());

}  // namespace

std::string_view to_string(Kind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::uint16_t version_of(Kind kind) {
  if (kind >= Kind::kStepSampling) return 3;
  return kind >= Kind::kReadPiece ? 2 : 1;
}

Kind kind_of(const Message& message) { return static_cast<Kind>(message.index() + 1); }

}  // namespace paceline::wire
