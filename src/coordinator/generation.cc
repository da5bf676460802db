#include "coordinator/generation.h"

namespace paceline::coordinator {

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

double Generation::decode_tokens_per_second() const {
  const double seconds = to_seconds(decode_time);
  if (tokens.size() < 2 || seconds <= 0.0) return 0.0;
  return static_cast<double>(tokens.size() - 1) / seconds;
}

}  // namespace paceline::coordinator
