#include "model/gguf_split.h"

#include <gtest/gtest.h>

#include "model/gguf.h"
#include "model/gguf_test_writer.h"
#include "model/safetensors_testing.h"
#include "model/tensor_testing.h"

namespace paceline::model {
namespace {

TEST(GgufSplitTest, NamesOfParts) {
  const auto name = parse_gguf_part_name("/m/a-b-00002-of-00003.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "/m/a-b");
  EXPECT_EQ(name->part, 1U);
  EXPECT_EQ(name->count, 3U);
  EXPECT_EQ(name->path_of(2), "/m/a-b-00003-of-00003.gguf");
  EXPECT_EQ(parse_gguf_part_name("x-00001-of-00001.gguf")->path_of(0), "x-00001-of-00001.gguf");
  for (const char* other : {"a.gguf", "a-1-of-3.gguf", "a-00004-of-00003.gguf",
                            "a-00000-of-00003.gguf", "a-00001-of-00003.bin", "00001-of-00003.gguf",
                            "a-00001of-00003.gguf", "a-0000x-of-00003.gguf", ""}) {
    EXPECT_FALSE(parse_gguf_part_name(other)) << other;
  }
}

/// A part whose tensors each hold `letter`; the first one has the metadata.
GgufTestWriter part(std::uint16_t number, std::uint16_t count) {
  GgufTestWriter writer;
  writer.set_raw("split.no", GgufType::kU16, GgufTestWriter::raw(number));
  writer.set_raw("split.count", GgufType::kU16, GgufTestWriter::raw(count));
  return writer;
}

void add(GgufTestWriter& writer, const char* name, char letter) {
  writer.add({name, {8}, 0, std::string(32, letter)});
}

class GgufPartsTest : public ::testing::Test {
 protected:
  GgufPartsTest() : first_(part(0, 3)), second_(part(1, 3)), third_(part(2, 3)) {
    first_.set_string("general.architecture", "llama");  // and no tensor
    first_.set_u32("split.tensors.count", 3);
    add(second_, "a", 'a');
    add(second_, "b", 'b');
    add(third_, "c", 'c');
  }
  void write(int number, const GgufTestWriter& writer) {
    const auto bytes = writer.finish();
    directory_.write(fmt::format("m-{:05}-of-00003.gguf", number),
                     {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  Result<std::unique_ptr<GgufFile>> open(int number) {
    return GgufFile::open(directory_.path() / fmt::format("m-{:05}-of-00003.gguf", number));
  }
  std::string error() {
    write(1, first_);
    write(2, second_);
    write(3, third_);
    const auto file = open(1);
    return file ? "" : file.error().message();
  }

  TestDirectory directory_;
  GgufTestWriter first_;
  GgufTestWriter second_;
  GgufTestWriter third_;
};

TEST_F(GgufPartsTest, AnyPartOpensThemAll) {
  ASSERT_EQ(error(), "");
  for (const int number : {1, 2, 3}) {
    const auto file = open(number);
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ((*file)->string_value("general.architecture").value(), "llama");
    ASSERT_EQ((*file)->tensors().size(), 3U);
    for (const std::string name : {"a", "b", "c"}) {
      const auto tensor = (*file)->find(name);
      ASSERT_TRUE(tensor);
      std::vector<std::byte> bytes(4);
      ASSERT_TRUE((*file)->read(**tensor, 28, bytes));
      EXPECT_EQ(bytes, std::vector<std::byte>(4, static_cast<std::byte>(name[0])));
      EXPECT_EQ(stored_bytes(**file, **tensor)[31], static_cast<std::byte>(name[0]));
    }
  }
}

TEST_F(GgufPartsTest, WhatIsMissingOrDoesNotFitIsNamed) {
  second_.set_raw("split.no", GgufType::kU16, GgufTestWriter::raw<std::uint16_t>(2));
  EXPECT_NE(error().find("m-00002-of-00003.gguf: metadata \"split.no\" and \"split.count\""),
            std::string::npos);
  second_ = part(1, 4);
  EXPECT_NE(error().find("expected 1 and 3"), std::string::npos);
  second_ = part(1, 3);
  EXPECT_NE(error().find("\"split.tensors.count\": is 3, expected the 1 tensors"),
            std::string::npos);
  add(second_, "c", 'c');
  add(second_, "d", 'd');
  EXPECT_NE(error().find("tensor \"c\": is in two parts"), std::string::npos);
  write(2, GgufTestWriter());
  EXPECT_NE(open(1).error().message().find("00002-of-00003.gguf: metadata \"split.no\""),
            std::string::npos);
  std::filesystem::remove(directory_.path() / "m-00002-of-00003.gguf");
  const std::string missing = open(3).error().message();
  EXPECT_NE(missing.find("part 2 of 3: "), std::string::npos) << missing;
  EXPECT_NE(missing.find("m-00002-of-00003.gguf: cannot open"), std::string::npos) << missing;
}

TEST_F(GgufPartsTest, OtherNamesAndMemoryHaveNoParts) {
  const auto bytes = first_.finish();
  directory_.write("other.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const auto other = GgufFile::open(directory_.path() / "other.gguf");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message().find("expected a file name like MODEL-00001-of-00003.gguf"),
            std::string::npos);
  const auto memory = GgufFile::from_memory("f", bytes);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().message(), "f: metadata \"split.count\": is 3, expected 1 in memory");
}

}  // namespace
}  // namespace paceline::model
