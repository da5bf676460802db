#include "api/embedding_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace paceline::api {
namespace {

/// An f32 has at most 15 characters: sign, nine digits, point, exponent.
constexpr std::size_t kLongestNumber = 32;

void append_number(float value, std::string& text) {
  std::array<char, kLongestNumber> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  text.append(digits.data(), end.ptr);
}

void append_numbers(std::span<const float> vector, std::string& text) {
  text += '[';
  for (std::size_t i = 0; i < vector.size(); ++i) {
    if (i > 0) text += ',';
    append_number(vector[i], text);
  }
  text += ']';
}

void append_base64(std::span<const float> vector, std::string& text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint8_t> bytes;
  bytes.reserve(vector.size() * sizeof(float));
  for (const float value : vector) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<std::uint8_t>(bits >> shift));
    }
  }
  text += '"';
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8U | (j < left ? bytes[i + j] : 0U);
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= left ? kDigits[group >> (18 - 6 * j) & 63U] : '=';
    }
  }
  text += '"';
}

}  // namespace

bool normalise(std::span<float> vector) {
  double square = 0;
  for (const float value : vector) square += double{value} * double{value};
  if (!std::isfinite(square) || square == 0) return false;
  const double length = std::sqrt(square);
  for (float& value : vector) value = static_cast<float>(double{value} / length);
  return true;
}

std::string embedding_item(std::size_t index, std::span<const float> vector, bool is_base64) {
  std::string text = fmt::format(R"({{"object":"embedding","index":{},"embedding":)", index);
  if (is_base64) {
    append_base64(vector, text);
  } else {
    append_numbers(vector, text);
  }
  text += '}';
  return text;
}

std::string embedding_list(std::span<const std::string> items, std::string_view model,
                           const Usage& usage) {
  std::string text = R"({"object":"list","data":[)";
  std::size_t bytes = 0;
  for (const std::string& item : items) bytes += item.size() + 1;
  text.reserve(text.size() + bytes + model.size() + 128);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += ',';
    text += items[i];
  }
  const Json counts = {{"prompt_tokens", usage.prompt_tokens},
                       {"total_tokens", usage.prompt_tokens}};
  text += fmt::format(R"(],"model":{},"usage":{}}})", dump(Json(model)), dump(counts));
  return text;
}

}  // namespace paceline::api
