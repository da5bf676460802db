// A small package on disk for tests: two files and weights of four layers, embedding and head.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "shard/build_manifest.h"

namespace paceline::shard {

/// A directory of this test's own, removed after it.
class PackageTestBase : public testing::Test {
 protected:
  static constexpr std::uint64_t kMiB = 1ULL << 20;
  static constexpr std::uint64_t kWeightBytes = 24 * kMiB;

  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::temp_directory_path() /
            fmt::format("paceline-{}-{}", info->name(), ::getpid());
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "package");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::filesystem::path package() const { return root_ / "package"; }

  static void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  /// Weights in which no page is zero and no two MiB are equal: one random MiB, again and again,
  /// with its number in front.
  void write_weights() const {
    std::vector<std::uint32_t> block(kMiB / sizeof(std::uint32_t));
    std::uint32_t state = 12345;
    for (std::uint32_t& word : block) word = state = state * 1664525U + 1013904223U;
    std::ofstream file(package() / kWeightsFile, std::ios::binary);
    for (std::uint32_t i = 0; i < kWeightBytes / kMiB; ++i) {
      block[0] = i;
      file.write(reinterpret_cast<const char*>(block.data()), kMiB);
    }
  }

  static std::vector<Piece> pieces() {
    return {
        {0, 18 * kMiB, Parts::of_embedding()},       {18 * kMiB, kMiB, Parts::of_layers({0, 1})},
        {19 * kMiB, kMiB, Parts::of_layers({1, 2})}, {20 * kMiB, kMiB, Parts::of_layers({2, 3})},
        {21 * kMiB, kMiB, Parts::of_layers({3, 4})}, {22 * kMiB, 1000, Parts::of_all()},
        {23 * kMiB, kMiB, Parts::of_head()}};
  }

  static Manifest facts() {
    Manifest manifest;
    manifest.model = {"Tiny \"T\"", "llama", "gguf"};
    manifest.layers = 4;
    manifest.hidden_size = 64;
    manifest.vocabulary_size = 1000;
    manifest.context_tokens = 2048;
    manifest.quantization = "Q4_1 (u4 group 32), embedding Q8_0";
    manifest.kv.assign(4, LayerKv{3, 64, 32});
    return manifest;
  }

  /// The package with its manifest written.
  Manifest make_package() const {
    write_text(package() / kGraphFile, "<net/>");
    write_text(package() / "config.json", "{}");
    write_weights();
    auto manifest = build_manifest(package(), facts(), pieces());
    EXPECT_TRUE(manifest) << manifest.error().message();
    if (!manifest) return {};
    EXPECT_TRUE(write_manifest(package(), &*manifest));
    return *manifest;
  }

  std::filesystem::path root_;
};

}  // namespace paceline::shard
