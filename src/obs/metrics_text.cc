#include "obs/metrics_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace paceline::obs {
namespace {

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == ':';
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// One line of samples. Each step says whether what it expects was there.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  std::optional<MetricSample> read() {
    MetricSample sample;
    skip_blanks();
    if (!read_name(sample.name)) return std::nullopt;
    skip_blanks();
    if (take('{') && !read_labels(sample.labels)) return std::nullopt;
    skip_blanks();
    if (!read_value(sample.value)) return std::nullopt;
    return sample;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
  }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool read_name(std::string& name) {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_name_byte);
    name.assign(rest_.begin(), end);
    rest_.remove_prefix(name.size());
    return !name.empty();
  }

  /// Behind the "{", up to and with the "}".
  bool read_labels(std::map<std::string, std::string>& labels) {
    skip_blanks();
    while (!take('}')) {
      std::string name;
      std::string value;
      if (labels.size() >= MetricsText::kMaxLabels || !read_name(name)) return false;
      skip_blanks();
      if (!take('=')) return false;
      skip_blanks();
      if (!read_quoted(value)) return false;
      labels[name] = std::move(value);
      skip_blanks();
      if (take(',')) {
        skip_blanks();
      } else if (rest_.empty() || rest_.front() != '}') {
        return false;
      }
    }
    return true;
  }

  bool read_quoted(std::string& value) {
    if (!take('"')) return false;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (c != '\\') {
        value += c;
        continue;
      }
      if (rest_.empty()) return false;
      value += rest_.front() == 'n' ? '\n' : rest_.front();
      rest_.remove_prefix(1);
    }
    return false;
  }

  /// Up to the end or a blank, behind which a timestamp may be.
  bool read_value(double& value) {
    const auto end = std::find_if(rest_.begin(), rest_.end(), is_blank);
    std::string_view text(rest_.data(), static_cast<std::size_t>(end - rest_.begin()));
    if (text.starts_with('+')) text.remove_prefix(1);
    if (text == "Inf" || text == "-Inf") {
      value = std::numeric_limits<double>::infinity() * (text[0] == '-' ? -1 : 1);
      return true;
    }
    if (text == "NaN") {
      value = std::numeric_limits<double>::quiet_NaN();
      return true;
    }
    const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && last == text.data() + text.size();
  }

  std::string_view rest_;
};

bool has_labels(const MetricSample& sample, const std::map<std::string, std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&sample](const auto& wanted) {
    const auto found = sample.labels.find(wanted.first);
    return found != sample.labels.end() && found->second == wanted.second;
  });
}

}  // namespace

Result<MetricsText> MetricsText::parse(std::string_view text) {
  MetricsText read;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto first = std::find_if_not(line.begin(), line.end(), is_blank);
    if (first == line.end() || *first == '#') continue;
    auto sample = LineReader(line).read();
    if (!sample) {
      return fail(ErrorCode::kInvalidArgument, "line {}: expected NAME{{LABELS}} VALUE", number);
    }
    if (read.samples_.size() >= kMaxSamples) {
      return fail(ErrorCode::kInvalidArgument, "more than {} samples", kMaxSamples);
    }
    read.samples_.push_back(*std::move(sample));
  }
  return read;
}

double MetricsText::sum(std::string_view name,
                        const std::map<std::string, std::string>& labels) const {
  double sum = 0;
  for (const MetricSample& sample : samples_) {
    if (sample.name == name && has_labels(sample, labels)) sum += sample.value;
  }
  return sum;
}

std::vector<std::string> MetricsText::values_of(
    std::string_view label, std::string_view name,
    const std::map<std::string, std::string>& labels) const {
  std::set<std::string> values;
  for (const MetricSample& sample : samples_) {
    if (sample.name != name || !has_labels(sample, labels)) continue;
    const auto found = sample.labels.find(std::string(label));
    if (found != sample.labels.end()) values.insert(found->second);
  }
  return {values.begin(), values.end()};
}

}  // namespace paceline::obs
