// Lines of a batch: requests in, results out, as OpenAI has them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"

namespace paceline::batch {

/// One request: to be done, or broken.
struct RequestLine {
  std::string custom_id = {};  ///< empty where it could not be read
  std::string body = {};       ///< as it is asked for: never streamed, behind all who wait
  std::string error = {};      ///< why there is no body
};

inline constexpr std::size_t kMaxLines = 50000;
/// An hour of waiting: who asks now goes first.
inline constexpr std::int64_t kPriority = -360;

/// The endpoints that batches may name.
bool is_batch_endpoint(std::string_view endpoint);

/// Each line of a JSONL file that is not empty. kInvalidArgument where there is none, or too many.
Result<std::vector<RequestLine>> read_lines(std::string_view text, std::string_view endpoint);

/// Tokens of one answer, or of all of a batch.
struct LineUsage {
  std::int64_t input_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< of the input
  std::int64_t output_tokens = 0;
  std::int64_t reasoning_tokens = 0;  ///< of the output
  LineUsage& operator+=(const LineUsage& other);
  friend bool operator==(const LineUsage&, const LineUsage&) = default;
};

struct AnsweredLine {
  std::string text = {};  ///< of the output file, or of the error file where the status is not 200
  LineUsage usage = {};   ///< as the answer says; nothing where it does not
};
AnsweredLine answer_line(std::string_view request_id, std::string_view custom_id, int status,
                         std::string_view body);
/// As a batch shows it.
api::Json to_json(const LineUsage& usage);
/// What to_json() gave; nothing of what else there may be.
LineUsage read_usage(const api::Json& json);
/// A line of the error file for what was never asked.
std::string error_line(std::string_view request_id, std::string_view custom_id,
                       std::string_view code, std::string_view message);

}  // namespace paceline::batch
