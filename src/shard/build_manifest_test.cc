#include "shard/build_manifest.h"

#include <gtest/gtest.h>

#include <random>

#include "shard/package_testing.h"

namespace paceline::shard {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;

TEST(PlanExtentsTest, NeighboursMergeOverPaddingAndOthersStayApart) {
  const Parts first = Parts::of_layers({0, 1});
  const Parts second = Parts::of_layers({1, 2});
  const auto extents = plan_extents({{100, 50, first},
                                     {0, 100, first},      // touches, out of order
                                     {200, 10, first},     // 50 bytes of padding
                                     {5000, 10, first},    // 4790 bytes: a gap
                                     {5010, 20, second},   // touches, other readers
                                     {5030, 0, first},     // nothing
                                     {6000, 5, Parts()}},  // nobody's
                                    10000);
  ASSERT_TRUE(extents);
  ASSERT_EQ(extents->size(), 3U);
  EXPECT_EQ((*extents)[0].offset, 0U);
  EXPECT_EQ((*extents)[0].bytes, 210U);
  EXPECT_EQ((*extents)[1].offset, 5000U);
  EXPECT_EQ((*extents)[1].bytes, 10U);
  EXPECT_EQ((*extents)[2].bytes, 20U);
  EXPECT_EQ((*extents)[2].parts, second);
}

TEST(PlanExtentsTest, LargeRunsAreSplit) {
  const auto extents = plan_extents({{64, 40 * kMiB, Parts::of_head()}}, 41 * kMiB);
  ASSERT_TRUE(extents);
  ASSERT_EQ(extents->size(), 3U);
  EXPECT_EQ((*extents)[1].offset, 64 + 16 * kMiB);
  EXPECT_EQ((*extents)[1].bytes, 16 * kMiB);
  EXPECT_EQ((*extents)[2].bytes, 8 * kMiB);
}

TEST(PlanExtentsTest, BytesWithSeveralReadersAreStoredOnce) {
  const auto extents =
      plan_extents({{0, 100, Parts::of_embedding()}, {0, 100, Parts::of_head()}}, 100);
  ASSERT_TRUE(extents);
  ASSERT_EQ(extents->size(), 1U);
  EXPECT_TRUE(extents->front().parts.embedding);
  EXPECT_TRUE(extents->front().parts.head);
}

TEST(PlanExtentsTest, PiecesBeyondTheFileAreRefused) {
  EXPECT_TRUE(plan_extents({{90, 10, Parts::of_all()}}, 100));
  EXPECT_EQ(plan_extents({{90, 11, Parts::of_all()}}, 100).error().message(),
            "openvino_model.bin: has 100 bytes, but the graph reads 11 bytes at offset 90");
  EXPECT_FALSE(plan_extents({{UINT64_MAX, 2, Parts::of_all()}}, 100));
}

// Against a table that says for each byte who reads it.
TEST(PlanExtentsTest, RandomOverlapsKeepEveryReaderOfEveryByte) {
  constexpr std::uint64_t kBytes = 20000;
  constexpr std::uint32_t kLayers = 6;
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    std::vector<Piece> pieces;
    std::vector<Parts> readers(kBytes);
    for (int i = 0; i < 12; ++i) {
      const auto layer = static_cast<std::uint32_t>(random() % kLayers);
      Piece piece = {random() % 19000, 1 + random() % 1000, Parts::of_layers({layer, layer + 1})};
      if (random() % 5 == 0) piece.parts = Parts::of_head();
      for (std::uint64_t b = 0; b < piece.bytes; ++b) readers[piece.offset + b].add(piece.parts);
      pieces.push_back(std::move(piece));
    }
    const auto extents = plan_extents(pieces, kBytes);
    ASSERT_TRUE(extents);
    std::uint64_t end = 0;
    std::vector<const Parts*> covered(kBytes, nullptr);
    for (const Extent& extent : *extents) {
      ASSERT_GE(extent.offset, end);
      end = extent.offset + extent.bytes;
      for (std::uint64_t b = extent.offset; b < end; ++b) covered[b] = &extent.parts;
    }
    for (std::uint64_t b = 0; b < kBytes; ++b) {
      if (readers[b].empty()) continue;
      ASSERT_NE(covered[b], nullptr) << "round " << round << " byte " << b;
      ASSERT_EQ(*covered[b], readers[b]) << "round " << round << " byte " << b;
    }
  }
}

class BuildManifestTest : public PackageTestBase {};

TEST_F(BuildManifestTest, EveryFileIsListedAndHashed) {
  std::filesystem::create_directories(package() / "onnx");
  write_text(package() / ".hidden", "x");
  const Manifest manifest = make_package();
  ASSERT_EQ(manifest.files.size(), 2U);
  EXPECT_EQ(manifest.files.at("config.json").bytes, 2U);
  EXPECT_EQ(manifest.files.at("config.json").sha256, sha256(std::string_view("{}")));
  EXPECT_EQ(manifest.weight_bytes, kWeightBytes);
  EXPECT_EQ(manifest.bytes_of({0, 4}), 23 * kMiB + 1000);
  // The embedding's 18 MiB are two extents, all the rest one each.
  EXPECT_EQ(manifest.extents.size(), 8U);
}

TEST_F(BuildManifestTest, ThreadsChangeNothingAndASecondRunGivesTheSame) {
  const Manifest once = make_package();
  std::uint64_t last = 0;
  BuildOptions options;
  options.threads = 3;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, 23 * kMiB + 1000 + 6 + 2);
    last = done;
  };
  const auto again = build_manifest(package(), facts(), pieces(), options);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, once);
  EXPECT_EQ(last, 23 * kMiB + 1000 + 6 + 2);
}

TEST_F(BuildManifestTest, EndsWhereItIsNotWantedAnyMore) {
  make_package();
  BuildOptions options;
  int asked = 0;
  options.is_wanted = [&] { return ++asked < 5; };
  const auto manifest = build_manifest(package(), facts(), pieces(), options);
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(asked, 5) << "two files, and the third MiB of 23";
}

TEST_F(BuildManifestTest, WhatCouldNotBeReadBackIsRefused) {
  EXPECT_EQ(build_manifest(package(), facts(), pieces()).error().code(), ErrorCode::kNotFound);
  write_weights();
  EXPECT_EQ(
      build_manifest(package(), facts(), pieces()).error().message(),
      "paceline.json: files.openvino_model.xml: expected a value, got nothing (no such field)");
  write_text(package() / kGraphFile, "<net/>");
  Manifest wrong = facts();
  wrong.kv.pop_back();
  EXPECT_EQ(build_manifest(package(), wrong, pieces()).error().message(),
            "paceline.json: kv: expected an array of 4, got an array of 3");
}

}  // namespace
}  // namespace paceline::shard
