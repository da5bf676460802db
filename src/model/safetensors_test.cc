#include "model/safetensors.h"

#include <gtest/gtest.h>

#include "model/dequantize.h"
#include "model/safetensors_testing.h"

namespace paceline::model {
namespace {

std::string raw(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> values_of(const SafetensorsModel& model, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.size_bytes);
  EXPECT_TRUE(model.read(tensor, 0, bytes));
  std::vector<float> values(tensor.size_bytes / block_bytes(tensor.type));
  dequantize(tensor.type, bytes, values);
  return values;
}

TEST(SafetensorsTest, ReadsEveryTypeOfASingleFile) {
  const TestDirectory directory;
  // Not in the order of the data, and with metadata.
  const std::string header = "{" + safetensors_entry("half", "F16", "2", 24, 28) +
                             R"(, "__metadata__": {"format": "pt"}, )" +
                             safetensors_entry("whole", "F32", "2, 3", 0, 24) + ", " +
                             safetensors_entry("eight", "F8_E4M3", "2, 1", 32, 34) + ", " +
                             safetensors_entry("brain", "BF16", "1, 2", 28, 32) + ", " +
                             safetensors_entry("scalar", "F32", "", 34, 38) + "}   ";
  using namespace std::string_literals;
  const std::string data = raw({1, 2, 3, 4, 5, 6}) + "\x00\x3c\x00\xc0"s + "\x80\x3f\x00\xc0"s +
                           "\x38\xb8"s + raw({0.5F});
  directory.write("model.safetensors", safetensors_file(header, data));
  const auto model = SafetensorsModel::open(directory.path());
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->name(), directory.path().string());
  ASSERT_EQ((*model)->tensors().size(), 5U);
  EXPECT_EQ((*model)->tensors()[0].name, "whole");
  const auto values = [&](const char* name) {
    const auto tensor = (*model)->find(name);
    EXPECT_TRUE(tensor) << name;
    return values_of(**model, **tensor);
  };
  EXPECT_EQ(values("whole"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values("half"), (std::vector<float>{1, -2}));
  EXPECT_EQ(values("brain"), (std::vector<float>{1, -2}));
  EXPECT_EQ(values("eight"), (std::vector<float>{1, -1}));
  EXPECT_EQ(values("scalar"), (std::vector<float>{0.5F}));
  const TensorInfo* whole = *(*model)->find("whole");
  EXPECT_EQ(whole->shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ((*(*model)->find("scalar"))->shape, std::vector<std::uint64_t>{1});
  std::vector<std::byte> part(8);
  ASSERT_TRUE((*model)->read(*whole, 12, part));
  float second_row = 0;
  std::memcpy(&second_row, part.data(), sizeof(float));
  EXPECT_EQ(second_row, 4.0F);
  EXPECT_EQ((*model)->find("none").error().message(),
            directory.path().string() + ": tensor \"none\": is missing");
}

TEST(SafetensorsTest, GathersThePartsThatAnIndexNames) {
  const TestDirectory directory;
  directory.write("a.safetensors",
                  safetensors_file("{" + safetensors_entry("x", "F32", "1", 0, 4) + "}", raw({7})));
  directory.write("b.safetensors",
                  safetensors_file("{" + safetensors_entry("y", "F32", "1", 0, 4) + ", " +
                                       safetensors_entry("z", "F32", "1", 4, 8) + "}",
                                   raw({8, 9})));
  directory.write("model.safetensors.index.json",
                  R"({"metadata": {"total_size": 12},
                      "weight_map": {"x": "a.safetensors", "z": "b.safetensors",
                                     "y": "b.safetensors"}})");
  const auto model = SafetensorsModel::open(directory.path());
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ((*model)->tensors().size(), 3U);
  EXPECT_EQ(values_of(**model, **(*model)->find("x")), std::vector<float>{7});
  EXPECT_EQ(values_of(**model, **(*model)->find("y")), std::vector<float>{8});
  EXPECT_EQ(values_of(**model, **(*model)->find("z")), std::vector<float>{9});
}

TEST(SafetensorsTest, TheSingleFileGoesBeforeAnIndex) {
  const TestDirectory directory;
  directory.write("model.safetensors",
                  safetensors_file("{" + safetensors_entry("x", "F32", "1", 0, 4) + "}", raw({7})));
  directory.write("model.safetensors.index.json", "not read");
  EXPECT_TRUE(SafetensorsModel::open(directory.path()));
}

}  // namespace
}  // namespace paceline::model
