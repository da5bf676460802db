// Every type against an independent reader: blocks and values that
// tests/golden/make_block_golden.py wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/dequantize.h"
#include "model/quantized_block.h"

namespace paceline::model {
namespace {

nlohmann::json golden_file() {
  std::ifstream file(PACELINE_SOURCE_DIR "/tests/golden/block_golden.json");
  return nlohmann::json::parse(file);
}

std::vector<std::byte> bytes_from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(BlockGoldenTest, EveryBlockTypeIsReadAsOthersReadIt) {
  const nlohmann::json golden = golden_file();
  std::size_t seen = 0;
  for (std::size_t number = 0; number < kTensorTypes; ++number) {
    const auto type = static_cast<TensorType>(number);
    const std::string name(to_string(type));
    if (!golden.contains(name)) {
      EXPECT_FALSE(is_quantized(type)) << name;
      continue;
    }
    ++seen;
    const auto blocks = bytes_from_hex(golden[name]["blocks"].get<std::string>());
    const auto& expected = golden[name]["values"];
    ASSERT_EQ(blocks.size() / block_bytes(type) * block_elements(type), expected.size()) << name;
    std::vector<float> values(expected.size());
    dequantize(type, blocks, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (expected[i].is_null()) {
        EXPECT_TRUE(std::isnan(values[i])) << name << " " << i;
      } else {
        ASSERT_EQ(values[i], expected[i].get<float>()) << name << " " << i;
      }
    }
  }
  EXPECT_EQ(seen, golden.size());
}

TEST(BlockGoldenTest, OffsetsAndRangesAreAsTheHeaderSays) {
  const nlohmann::json golden = golden_file();
  for (std::size_t number = 0; number < kTensorTypes; ++number) {
    const auto type = static_cast<TensorType>(number);
    if (!is_quantized(type)) continue;
    const auto all = bytes_from_hex(golden[std::string(to_string(type))]["blocks"]);
    UnpackedBlock block;
    unpack_block(type, std::span(all).first(block_bytes(type)), block);
    const auto quants = std::span(block.quants).first(block_elements(type));
    const auto [low, high] = std::minmax_element(quants.begin(), quants.end());
    const bool is_signed = *low < 0;
    EXPECT_NE(is_signed, has_offsets(type)) << to_string(type);
    EXPECT_LE(*high, is_signed ? 127 : 31) << to_string(type);
    const std::size_t groups = block_elements(type) / group_elements(type);
    EXPECT_LE(groups, block.scales.size());
    if (has_offsets(type)) continue;
    for (std::size_t group = 0; group < groups; ++group) EXPECT_EQ(block.offsets[group], 0.0F);
  }
}

}  // namespace
}  // namespace paceline::model
