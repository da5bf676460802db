#include "shard/stage_memory.h"

#include <gtest/gtest.h>

namespace paceline::shard {
namespace {

Manifest two_layers() {
  Manifest manifest;
  manifest.layers = 2;
  manifest.kv = {{3, 64, 64}, {3, 64, 64}};
  Extent extent;
  extent.bytes = 1000;
  extent.parts = Parts::of_layers({0, 1});
  manifest.extents.push_back(extent);
  return manifest;
}

TEST(StageMemoryTest, ExactKeepsFloats) {
  EXPECT_EQ(paged_kv_bytes_per_token(two_layers(), {0, 1}, Profile::kExact), 2U * 3 * 64 * 4);
  EXPECT_EQ(paged_kv_bytes_per_token(two_layers(), {0, 2}, Profile::kExact), 2U * 2 * 3 * 64 * 4);
}

TEST(StageMemoryTest, FastKeepsBytesWithScales) {
  EXPECT_EQ(paged_kv_bytes_per_token(two_layers(), {1, 2}, Profile::kFast), 2U * 3 * (64 + 8));
}

TEST(StageMemoryTest, AStageTakesItsWeightsItsKvAndAProcess) {
  const StageMemory with = estimate_stage_memory(two_layers(), {0, 1}, Profile::kExact, 10);
  const StageMemory without = estimate_stage_memory(two_layers(), {1, 2}, Profile::kExact, 10);
  EXPECT_EQ(with.weight_bytes, 1070U);
  EXPECT_EQ(without.weight_bytes, 0U);
  EXPECT_EQ(with.kv_bytes, 10U * 2 * 3 * 64 * 4);
  EXPECT_EQ(with.total_bytes(), with.weight_bytes + with.kv_bytes + with.process_bytes);
}

}  // namespace
}  // namespace paceline::shard
