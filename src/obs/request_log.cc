#include "obs/request_log.h"

#include <algorithm>
#include <utility>

namespace paceline::obs {
namespace {

constexpr std::size_t kMostBytes = 128;

void cut(std::string& text) {
  if (text.size() > kMostBytes) text.resize(kMostBytes);
}

}  // namespace

void RequestLog::add_locked(RequestRecord record) {
  cut(record.id);
  cut(record.route);
  cut(record.model);
  cut(record.tenant);
  record.number = ++last_number_;
  records_.push_back(std::move(record));
  while (records_.size() > kept_) records_.pop_front();
}

void RequestLog::add(RequestRecord record) {
  const std::lock_guard lock(mutex_);
  add_locked(std::move(record));
}

void RequestLog::add_refused(RequestRecord record) {
  cut(record.id);
  const std::lock_guard lock(mutex_);
  const bool is_known =
      std::any_of(records_.rbegin(), records_.rend(),
                  [&record](const RequestRecord& known) { return known.id == record.id; });
  if (!is_known) add_locked(std::move(record));
}

std::vector<RequestRecord> RequestLog::after(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto is_later = [number](const RequestRecord& record) { return record.number > number; };
  const auto first = std::find_if(records_.begin(), records_.end(), is_later);
  return {first, records_.end()};
}

}  // namespace paceline::obs
