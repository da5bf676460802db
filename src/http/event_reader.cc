#include "http/event_reader.h"

#include <algorithm>

namespace paceline::http {

bool EventReader::take_line(std::string_view line, const OnData& on_data) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) {
    const bool has_event = has_data_;
    has_data_ = false;
    const std::string data = std::move(data_);
    data_.clear();
    return !has_event || on_data(data);
  }
  constexpr std::string_view kField = "data";
  const std::size_t colon = std::min(line.find(':'), line.size());
  if (line.substr(0, colon) != kField) return true;
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  has_data_ = true;
  data_ += value;
  return data_.size() <= kMaxBytes;
}

bool EventReader::add(std::string_view bytes, const OnData& on_data) {
  while (true) {
    const std::size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() > kMaxBytes) return false;
    if (end == std::string_view::npos) return true;
    bytes.remove_prefix(end + 1);
    const std::string line = std::move(line_);
    line_.clear();
    if (!take_line(line, on_data)) return false;
  }
}

}  // namespace paceline::http
