#include "shard/manifest.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline::shard {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.paceline_version = "0.1.0";
  manifest.model = {"Tiny", "llama", "gguf"};
  manifest.layers = 4;
  manifest.hidden_size = 64;
  manifest.vocabulary_size = 1000;
  manifest.context_tokens = 2048;
  manifest.quantization = "Q4_1";
  manifest.kv = {{3, 64, 32}, {3, 64, 32}, {1, 64, 64}, {1, 64, 64}};
  manifest.files[kGraphFile] = {6, sha256(std::string_view("<net/>"))};
  manifest.weight_bytes = 1000;
  Parts both = Parts::of_embedding();
  both.add(Parts::of_head());
  manifest.extents = {{0, 100, sha256(std::string_view("a")), both},
                      {100, 200, sha256(std::string_view("b")), Parts::of_layers({0, 1})},
                      {300, 101, sha256(std::string_view("c")), Parts::of_layers({0, 2})},
                      {500, 50, sha256(std::string_view("d")), Parts::of_layers({2, 4})},
                      {600, 10, sha256(std::string_view("e")), Parts::of_all()}};
  return manifest;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  const auto result = parse_manifest(text);
  EXPECT_FALSE(result);
  return result ? "" : result.error().message();
}

TEST(ManifestTest, WrittenTextReadsBackEqualAndCarriesItsDigest) {
  const Manifest manifest = example();
  const std::string text = to_json(manifest);
  auto read = parse_manifest(text);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->digest, to_hex(sha256(text)));
  EXPECT_EQ(to_json(*read), text);
  read->digest.clear();
  EXPECT_EQ(*read, manifest);
}

TEST(ManifestTest, RangesChooseTheirExtents) {
  const Manifest manifest = example();
  using Indices = std::vector<std::size_t>;
  EXPECT_EQ(manifest.extents_of({0, 4}), (Indices{0, 1, 2, 3, 4}));
  EXPECT_EQ(manifest.extents_of({0, 1}), (Indices{0, 1, 2, 4}));
  EXPECT_EQ(manifest.extents_of({1, 2}), (Indices{2, 4}));
  EXPECT_EQ(manifest.extents_of({2, 3}), (Indices{3, 4}));
  EXPECT_EQ(manifest.extents_of({3, 4}), (Indices{0, 3, 4}));
  EXPECT_EQ(manifest.bytes_of({1, 2}), 111U);
  EXPECT_EQ(manifest.bytes_of({3, 4}), 160U);
}

TEST(ManifestTest, PartBytesLoseNothing) {
  const PartBytes bytes = example().part_bytes();
  EXPECT_EQ(bytes.embedding, 100U);
  EXPECT_EQ(bytes.head, 100U);
  EXPECT_EQ(bytes.shared, 10U);
  EXPECT_EQ(bytes.layers, (std::vector<std::uint64_t>{251, 50, 25, 25}));
}

TEST(ManifestTest, KvBytesCountKeysAndValuesOfTheRange) {
  const Manifest manifest = example();
  EXPECT_EQ(manifest.kv_bytes_per_token({0, 1}, 4), 3U * (64 + 32) * 4);
  EXPECT_EQ(manifest.kv_bytes_per_token({1, 3}, 2), (3U * 96 + 128) * 2);
  EXPECT_EQ(manifest.kv_bytes_per_token({2, 2}, 2), 0U);
}

TEST(ManifestTest, OnlyRangesOfTheModelPass) {
  const Manifest manifest = example();
  EXPECT_TRUE(manifest.check_range({3, 4}));
  EXPECT_FALSE(manifest.check_range({3, 3}));
  EXPECT_FALSE(manifest.check_range({3, 2}));
  EXPECT_EQ(manifest.check_range({2, 5}).error().message(),
            "layers [2, 5) are not a range of this model, which has layers [0, 4)");
}

TEST(PartsTest, AddingJoinsLayersThatTouch) {
  Parts parts = Parts::of_layers({4, 6});
  parts.add(Parts::of_layers({0, 1}));
  parts.add(Parts::of_layers({1, 2}));
  parts.add(Parts::of_layers({5, 8}));
  EXPECT_EQ(parts.layers, (std::vector<LayerRange>{{0, 2}, {4, 8}}));
  EXPECT_FALSE(parts.read_by({2, 4}, 10));
  EXPECT_TRUE(parts.read_by({7, 10}, 10));
}

TEST(ManifestTest, SamplingMayBeMissingAndReadsBack) {
  Manifest manifest = example();
  EXPECT_EQ(to_json(manifest).find("sampling"), std::string::npos);
  manifest.model.sampling.do_sample = true;
  manifest.model.sampling.top_k = 20;
  const std::string text = to_json(manifest);
  EXPECT_NE(text.find(R"("sampling": {"do_sample":true,"top_k":20})"), std::string::npos) << text;
  const auto read = parse_manifest(text);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->model.sampling, manifest.model.sampling);
  EXPECT_EQ(error_of(replaced(text, "\"top_k\":20", "\"top_k\":\"20\"")),
            "paceline.json: sampling.top_k: expected an integer from 0 to 4294967295, got \"20\"");
  EXPECT_EQ(error_of(replaced(text, R"({"do_sample":true,"top_k":20})", "[]")),
            "paceline.json: sampling: expected an object, got an array of 0");
}

struct BadField {
  const char* from;
  const char* to;
  const char* message;
};

TEST(ManifestTest, EachWrongFieldIsNamedWithWhatWasExpected) {
  const std::string text = to_json(example());
  const BadField cases[] = {
      {"\"layers\": 4", "\"layers\": 0", "layers: expected an integer from 1 to 16384, got 0"},
      {"\"layers\": 4", "\"layers\": -4", "layers: expected an integer from 1 to 16384, got -4"},
      {"\"layers\": 4", "\"layers\": 4.5", "layers: expected an integer from 1 to 16384, got 4.5"},
      {"\"layers\": 4", "\"layers\": 1e400", "is not JSON: syntax error at byte"},
      {"\"layers\": 4", "\"layers\": 3", "kv: expected an array of 3, got an array of 4"},
      {"\"hidden_size\": 64", "\"hidden_size\": 99999999999999999999",
       "hidden_size: expected an integer from 1 to 4294967295, got 1e+20"},
      {"\"hidden_size\": 64,", "", "hidden_size: expected a value, got nothing (no such field)"},
      {"\"name\":\"Tiny\"", "\"name\":7",
       "model.name: expected a string of at most 4096 bytes, got 7"},
      {"\"key_heads\":3", "\"key_heads\":65537",
       "kv[0].key_heads: expected an integer from 1 to 65536, got 65537"},
      {"\"openvino_model.xml\"", "\"../openvino_model.xml\"",
       "files: expected plain file names, got \"../openvino_model.xml\""},
      {"\"openvino_model.xml\"", "\"other.xml\"",
       "files.openvino_model.xml: expected a value, got nothing (no such field)"},
      {"\"bytes\": 1000", "\"bytes\": 9007199254740993",
       "weights.bytes: expected an integer from 0 to 9007199254740992, got 9007199254740993"},
      {"\"offset\":500,\"bytes\":50", "\"offset\":500,\"bytes\":\"abc\"",
       "weights.extents[3].bytes: expected an integer from 1 to 500, got \"abc\""},
      {"\"offset\":300", "\"offset\":299",
       "weights.extents[2].offset: expected an integer from 300 to 999, got 299"},
      {"\"offset\":600", "\"offset\":1000",
       "weights.extents[4].offset: expected an integer from 550 to 999, got 1000"},
      {"\"parts\":[[2,4]]", "\"parts\":[[2,5]]",
       "weights.extents[3].parts[0][1]: expected an integer from 3 to 4, got 5"},
      {"\"parts\":[[2,4]]", "\"parts\":[[2,3],[3,4]]",
       "weights.extents[3].parts[1]: expected layers that begin after the ones before end, got an "
       "array of 2"},
      {"\"parts\":[[2,4]]", "\"parts\":[]",
       "weights.extents[3].parts: expected an array of 1 to 7, got an array of 0"},
      {"\"parts\":[\"shared\"]", "\"parts\":[\"all\"]",
       "weights.extents[4].parts[0]: expected [begin, end], \"embedding\", \"head\" or \"shared\", "
       "got \"all\""},
      {"\"extents\": [", "\"extents\": {}, \"ignored\": [",
       "weights.extents: expected an array of 0 to 1000000, got an object"},
  };
  for (const BadField& bad : cases) {
    const std::string message = error_of(replaced(text, bad.from, bad.to));
    EXPECT_TRUE(message.starts_with(std::string("paceline.json: ") + bad.message))
        << message << "\nexpected: " << bad.message;
  }
}

TEST(ManifestTest, AnExtentBeyondSixteenMebibytesIsRefused) {
  Manifest manifest = example();
  manifest.weight_bytes = 1ULL << 30;
  manifest.extents.back().bytes = kMaxExtentBytes;
  EXPECT_TRUE(parse_manifest(to_json(manifest)));
  ++manifest.extents.back().bytes;
  EXPECT_EQ(error_of(to_json(manifest)),
            "paceline.json: weights.extents[4].bytes: expected an integer from 1 to 16777216, got "
            "16777217");
}

TEST(ManifestTest, HashesAreDigits) {
  std::string text = to_json(example());
  text = replaced(text, to_hex(sha256(std::string_view("d"))), std::string(64, 'z'));
  EXPECT_EQ(error_of(text),
            "paceline.json: weights.extents[3].sha256: expected 64 lower-case "
            "hexadecimal digits, got \"" +
                std::string(39, 'z') + "...");
}

TEST(ManifestTest, ANewerVersionSaysToUpdateBeforeAnythingElse) {
  const auto result = parse_manifest(R"({"format_version": 2, "layers": "many"})");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(
      result.error().message(),
      "paceline.json: format_version: the package has version 2, this paceline reads up to 1; "
      "update paceline");
}

TEST(ManifestTest, UnknownFieldsAreIgnored) {
  EXPECT_TRUE(parse_manifest(replaced(to_json(example()), "{", "{\"later\": [{}],")));
}

TEST(ManifestTest, TextThatIsNoManifest) {
  EXPECT_EQ(error_of(""), "paceline.json: is not JSON: syntax error at byte 1");
  EXPECT_EQ(error_of("[]"), "paceline.json: the document: expected an object, got an array of 0");
  EXPECT_EQ(error_of(std::string(1000000, '[')), "paceline.json: is nested more than 8 deep");
  std::string many = "[0";
  for (int i = 0; i < 1000001; ++i) many += ",0";
  EXPECT_EQ(error_of(many + "]"), "paceline.json: holds more than 1000000 values");
  EXPECT_EQ(error_of(std::string(kMaxManifestBytes + 1, ' ')),
            "paceline.json: has 67108865 bytes, at most 67108864 are read");
}

TEST(ManifestTest, FileNamesStayInTheDirectory) {
  for (const char* good : {"config.json", "openvino_tokenizer.bin", "a b", "\xc3\xa4"}) {
    EXPECT_TRUE(is_package_file_name(good)) << good;
  }
  for (const char* bad : {"", ".", "..", ".hidden", "a/b", "/etc/passwd", "a\\b", "a\nb",
                          "paceline.json", "openvino_model.bin"}) {
    EXPECT_FALSE(is_package_file_name(bad)) << bad;
  }
  EXPECT_FALSE(is_package_file_name(std::string(256, 'a')));
}

TEST(ManifestTest, BrokenTextNeverCrashesAndWhatPassesIsConsistent) {
  const std::string text = to_json(example());
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string broken = text;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) {
      broken[random() % broken.size()] =
          static_cast<char>("0123456789{}[]\",:-e\xff"[random() % 21]);
    }
    if (random() % 4 == 0) broken.resize(random() % broken.size());
    const auto manifest = parse_manifest(broken);
    if (!manifest) {
      EXPECT_EQ(manifest.error().message().find('\n'), std::string::npos);
      continue;
    }
    ++accepted;
    EXPECT_LE(manifest->bytes_of(manifest->all_layers()), manifest->weight_bytes);
    EXPECT_EQ(manifest->kv.size(), manifest->layers);
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace paceline::shard
