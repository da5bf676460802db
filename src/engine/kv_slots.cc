#include "engine/kv_slots.h"

#include "base/check.h"

namespace paceline::engine {

std::vector<std::int64_t> KvSlots::mask_with(std::uint32_t more) const {
  std::vector<std::int64_t> mask = mask_;
  mask.resize(mask.size() + more, 1);
  return mask;
}

void KvSlots::append(std::uint32_t tokens) {
  mask_.resize(mask_.size() + tokens, 1);
  tokens_ += tokens;
}

void KvSlots::mask_from(std::uint32_t kept) {
  PACELINE_CHECK(kept <= tokens_);
  for (std::size_t slot = mask_.size(); tokens_ > kept;) {
    if (mask_[--slot] == 0) continue;
    mask_[slot] = 0;
    --tokens_;
  }
}

std::vector<SlotRun> KvSlots::cut_to(std::uint32_t kept) {
  mask_from(kept);
  std::vector<SlotRun> runs;
  for (std::size_t slot = 0; slot < mask_.size(); ++slot) {
    if (mask_[slot] == 0) continue;
    if (runs.empty() || runs.back().end != slot) runs.push_back({slot, slot});
    ++runs.back().end;
  }
  mask_.assign(kept, 1);
  return runs;
}

void KvSlots::clear() {
  mask_.clear();
  tokens_ = 0;
}

}  // namespace paceline::engine
