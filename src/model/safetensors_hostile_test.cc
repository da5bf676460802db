// Files and indexes that are damaged or made to harm: each gets one line that names what is wrong.
#include <gtest/gtest.h>

#include <random>

#include "model/safetensors.h"
#include "model/safetensors_header.h"
#include "model/safetensors_testing.h"

namespace paceline::model {
namespace {

/// The error of a file of this header and as many data bytes.
std::string error_of(const std::string& header, std::uint64_t data_bytes = 8) {
  const auto parsed =
      parse_safetensors_header(header, kSafetensorsPrefixBytes + header.size() + data_bytes);
  if (parsed) return "";
  const std::string& message = parsed.error().message();
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 400U) << message;
  return message;
}

std::string entry(const std::string& fields) { return R"({"t": {)" + fields + "}}"; }

std::string lying(const std::string& shape, const std::string& offsets) {
  return entry(R"("dtype": "F32", "shape": [)" + shape + R"(], "data_offsets": [)" + offsets + "]");
}

struct Case {
  const char* about;
  std::string header;
  const char* expected;
};

void expect_each(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string message = error_of(c.header);
    EXPECT_NE(message.find(c.expected), std::string::npos) << c.about << ": \"" << message << '"';
  }
}

TEST(SafetensorsHostileTest, TheUnchangedHeaderIsFine) {
  EXPECT_EQ(error_of(lying("2", "0, 8")), "");
  EXPECT_EQ(error_of(R"({"__metadata__": {"a": "b"}})", 0), "");
}

TEST(SafetensorsHostileTest, OffsetsThatLie) {
  expect_each({
      {"inverted", lying("2", "8, 0"), "has the data_offsets [8, 0], expected a begin and an end"},
      {"one", lying("2", "0"), "has the data_offsets [0], expected"},
      {"three", lying("2", "0, 8, 8"), "has the data_offsets [0, 8, 8], expected"},
      {"beyond the file", lying("3", "0, 12"), "lies at [0, 12] of the file's 8 data bytes"},
      {"far beyond", lying("2", "18446744073709551607, 18446744073709551615"),
       "of the file's 8 data bytes"},
      {"a hole before", lying("1", "4, 8"), "expected to begin at 0"},
      {"a hole behind", lying("1", "0, 4"), "end at 4 of the file's 8 data bytes"},
      {"more than the shape", lying("1", "0, 8"),
       "hold 8 bytes, not what its shape [1] of F32 takes"},
      {"less than the shape", lying("3", "0, 8"), "not what its shape [3]"},
      {"an overflow", lying("4611686018427387904, 4", "0, 8"), "not what its shape"},
      {"an overflow of bytes", lying("4611686018427387905", "0, 4"), "not what its shape"},
      {"a dimension of 0", lying("0", "0, 0"), "has a dimension of 0"},
      {"overlapping",
       "{" + safetensors_entry("a", "F32", "1", 0, 4) + "," +
           safetensors_entry("b", "F32", "2", 0, 8) + "}",
       "tensor \"b\": lies at [0, 8] of the file's 8 data bytes, expected to begin at 4"},
      {"a hole between",
       "{" + safetensors_entry("a", "F16", "1", 0, 2) + "," +
           safetensors_entry("b", "F32", "1", 4, 8) + "}",
       "tensor \"b\": lies at [4, 8]"},
  });
}

TEST(SafetensorsHostileTest, FieldsThatAreNone) {
  expect_each({
      {"no type", entry(R"("shape": [2], "data_offsets": [0, 8])"), "tensor \"t\": has no dtype"},
      {"no shape", entry(R"("dtype": "F32", "data_offsets": [0, 8])"), "has no shape"},
      {"no offsets", entry(R"("dtype": "F32", "shape": [2])"), "has no data_offsets"},
      {"a type twice", entry(R"("dtype": "F32", "dtype": "F32")"), "has its dtype twice"},
      {"offsets twice", entry(R"("data_offsets": [0, 8], "data_offsets": [0, 8])"),
       "has its data_offsets twice"},
      {"another field", entry(R"("dtype": "F32", "stride": [1])"), "has the field \"stride\""},
      {"an unknown type", entry(R"("dtype": "I64")"),
       "has the type \"I64\", expected one of F32, F16, BF16, F8_E4M3"},
      {"a type of none", entry(R"("dtype": null)"), "has null as its dtype, expected a string"},
      {"a type that is a list", entry(R"("dtype": [])"), "has an array as its dtype"},
      {"a shape that is a number", entry(R"("shape": 2)"), "has 2 as its shape, expected an array"},
      {"a negative dimension", entry(R"("shape": [-2])"), "has -2 as its shape"},
      {"half a dimension", entry(R"("shape": [0.5])"), "has 0.5 as its shape"},
      {"a list in a list", entry(R"("shape": [[2]])"), "has an array as its shape"},
      {"an object in a list", entry(R"("shape": [{}])"), "has an object as its shape"},
      {"too many dimensions", entry(R"("shape": [1,1,1,1,1,1,1,1,1])"), "more than 8 numbers"},
      {"a name twice", R"({"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}, "a": {}})",
       "tensor \"a\": is there twice"},
      {"metadata twice", R"({"__metadata__": {}, "__metadata__": {}})", "is there twice"},
      {"no name", R"({"": {}})", "has a name of 0 bytes"},
      {"a long name", "{\"" + std::string(2000, 'n') + "\": {}}", "has a name of 2000 bytes"},
      {"a tensor that is text", R"({"a": "b"})", "has \"b\" where a tensor is expected"},
      {"metadata that is none", R"({"__metadata__": {"a": 1}})", "has 1 in its metadata"},
      {"metadata in metadata", R"({"__metadata__": {"a": {}}})", "has an object in its metadata"},
      {"a list", "[]", "has an array where a tensor"},
      {"a word", "true", "has a bool where a tensor"},
      {"no JSON", "{", "header: is not JSON: syntax error at byte 2"},
      {"more than JSON", lying("2", "0, 8") + "x", "header: is not JSON"},
      {"nothing", "", "header: is not JSON"},
      {"deep", entry(R"("shape": )" + std::string(100000, '[')), "has an array as its shape"},
      {"deeper", R"({"__metadata__": {"a": )" + std::string(100000, '['), "has an array in its"},
  });
}

TEST(SafetensorsHostileTest, LengthsOfTheHeader) {
  EXPECT_TRUE(safetensors_header_bytes(2, 10));
  for (const std::uint64_t length : {0ULL, 1ULL, 3ULL, 1ULL << 40, ~0ULL}) {
    const auto bytes = safetensors_header_bytes(length, 10);
    ASSERT_FALSE(bytes) << length;
    EXPECT_NE(bytes.error().message().find("expected 2 to 2"), std::string::npos);
  }
  EXPECT_FALSE(safetensors_header_bytes(2, 0));
  EXPECT_FALSE(safetensors_header_bytes(kMaxSafetensorsHeaderBytes + 1, 1ULL << 40));
}

TEST(SafetensorsHostileTest, ChangedBytesNeverCrash) {
  const std::string whole = "{" + safetensors_entry("a", "F32", "1", 0, 4) + ", " +
                            safetensors_entry("b", "BF16", "2", 4, 8) +
                            R"(, "__metadata__": {"format": "pt"}})";
  ASSERT_EQ(error_of(whole), "");
  std::mt19937 random(11);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string header = whole;
    for (int i = 0; i < 2; ++i) header[random() % header.size()] = static_cast<char>(random());
    if (error_of(header).empty()) ++accepted;
  }
  EXPECT_LT(accepted, 10000);
}

/// The error of opening a directory of these files.
std::string error_of_files(const std::vector<std::pair<std::string, std::string>>& files) {
  const TestDirectory directory;
  for (const auto& [name, content] : files) directory.write(name, content);
  const auto model = SafetensorsModel::open(directory.path());
  if (model) return "";
  EXPECT_EQ(model.error().message().find('\n'), std::string::npos);
  return model.error().message();
}

TEST(SafetensorsHostileTest, FilesThatAreTooShort) {
  EXPECT_NE(error_of_files({}).find("has no model.safetensors, expected it or"), std::string::npos);
  const std::string whole = safetensors_file(lying("2", "0, 8"), std::string(8, '\0'));
  EXPECT_EQ(error_of_files({{"model.safetensors", whole}}), "");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string message = error_of_files({{"model.safetensors", whole.substr(0, size)}});
    EXPECT_NE(message.find("/model.safetensors: "), std::string::npos) << size << message;
  }
  EXPECT_NE(error_of_files({{"model.safetensors", whole + "x"}}), "");
}

TEST(SafetensorsHostileTest, IndexesThatDoNotFitTheirParts) {
  const std::string part = safetensors_file(lying("2", "0, 8"), std::string(8, '\0'));
  const auto error_of_map = [&](const std::string& map) {
    return error_of_files({{"p.safetensors", part},
                           {"q.safetensors", part},
                           {"model.safetensors.index.json", R"({"weight_map": )" + map + "}"}});
  };
  EXPECT_EQ(error_of_map(R"({"t": "p.safetensors"})"), "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"t": "none.safetensors"})", "names a part: "},
      {R"({"t": "none.safetensors"})", "none.safetensors: cannot open"},
      {R"({"t": "p.safetensors", "u": "p.safetensors"})", "tensor \"u\": is not in p.safetensors"},
      {R"({"t": "p.safetensors", "u": "q.safetensors"})", "tensor \"t\": is in p.safetensors too"},
      {R"({"t": "../p.safetensors"})", "is in \"../p.safetensors\", expected the plain name"},
      {R"({"t": "/etc/passwd"})", "expected the plain name"},
      {R"({"t": ".."})", "expected the plain name"},
      {R"({"t": ""})", "expected the plain name"},
      {R"({"t": "a\u0000b"})", "expected the plain name"},
      {R"({"t": 1})", "is in 1, expected the plain name"},
      {R"({"t": "p.safetensors", "t": "q.safetensors"})", "has the key \"t\" twice"},
      {R"({})", "\"weight_map\": is missing or empty"},
      {R"([])", "\"weight_map\": is missing or empty"},
      {std::string(50000, '['), "is nested more than"},
  };
  for (const auto& [map, expected] : cases) {
    const std::string message = error_of_map(map);
    EXPECT_NE(message.find(expected), std::string::npos) << map.substr(0, 80) << ": " << message;
  }
  EXPECT_NE(parse_safetensors_index("[]").error().message().find("weight_map"), std::string::npos);
}

}  // namespace
}  // namespace paceline::model
