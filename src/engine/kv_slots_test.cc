#include "engine/kv_slots.h"

#include <gmock/gmock.h>

#include <ostream>

namespace paceline::engine {

void PrintTo(SlotRun run, std::ostream* out) { *out << run.begin << ":" << run.end; }

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(KvSlotsTest, ForgottenTokensStayBehindTheMask) {
  KvSlots slots;
  EXPECT_THAT(slots.mask_with(2), ElementsAre(1, 1));
  slots.append(4);
  slots.mask_from(2);
  EXPECT_EQ(slots.tokens(), 2U);
  EXPECT_EQ(slots.slots(), 4U);
  EXPECT_EQ(slots.masked(), 2U);
  EXPECT_THAT(slots.mask_with(1), ElementsAre(1, 1, 0, 0, 1));
  slots.append(2);
  slots.mask_from(3);
  EXPECT_THAT(slots.mask_with(0), ElementsAre(1, 1, 0, 0, 1, 0));
  slots.mask_from(3);
  EXPECT_EQ(slots.tokens(), 3U) << "nothing to forget";
  slots.mask_from(1);
  EXPECT_THAT(slots.mask_with(0), ElementsAre(1, 0, 0, 0, 0, 0)) << "over what was masked before";
}

TEST(KvSlotsTest, ACutLeavesTheSlotsThatCount) {
  KvSlots slots;
  slots.append(3);
  slots.mask_from(2);
  slots.append(3);
  slots.mask_from(4);
  slots.append(2);
  EXPECT_THAT(slots.mask_with(0), ElementsAre(1, 1, 0, 1, 1, 0, 1, 1));
  EXPECT_THAT(slots.cut_to(5), ElementsAre(SlotRun{0, 2}, SlotRun{3, 5}, SlotRun{6, 7}));
  EXPECT_EQ(slots.slots(), 5U);
  EXPECT_EQ(slots.masked(), 0U);
  EXPECT_THAT(slots.mask_with(1), ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(slots.cut_to(0), IsEmpty());
  EXPECT_EQ(slots.slots(), 0U);
}

TEST(KvSlotsTest, ClearedSlotsBeginAnew) {
  KvSlots slots;
  slots.append(3);
  slots.mask_from(1);
  slots.clear();
  EXPECT_EQ(slots.tokens(), 0U);
  EXPECT_THAT(slots.mask_with(1), ElementsAre(1));
}

}  // namespace
}  // namespace paceline::engine
