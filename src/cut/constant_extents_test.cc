// Extents cover exactly what stages read: a .bin of which all else is holes serves them.
#include "cut/constant_extents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cut/test_models.h"

namespace paceline::cut {
namespace {

const BatchSchedule kSchedule = {{2, 0}, {7, 1, 1}};

/// A directory that is removed with its content.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "paceline_cut_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(MergeExtentsTest, SortsAndJoinsWhatTouchesOrOverlaps) {
  EXPECT_THAT(merge_extents({{10, 5}, {0, 4}, {4, 2}, {12, 1}, {15, 1}, {30, 0}}),
              testing::ElementsAre(ByteExtent{0, 6}, ByteExtent{10, 6}));
  EXPECT_TRUE(merge_extents({}).empty());
  EXPECT_EQ(total_bytes({{0, 6}, {10, 6}}), 12U);
}

class ExtentsTest : public testing::TestWithParam<std::string> {
 protected:
  ov::Core core_;
  DecoderIr ir_ = read_tiny_model(core_, GetParam());
  DecoderAnalysis analysis_ = DecoderAnalysis::analyse(ir_.model).value();
  ConstantExtents extents_ = analysis_.constant_extents(ir_.weight_bytes()).value();
};

TEST_P(ExtentsTest, CoverTheFileAndSplitIt) {
  const std::uint64_t file = ir_.weight_bytes().size();
  EXPECT_EQ(total_bytes(extents_.of({0, analysis_.layers()})), file);
  ASSERT_EQ(extents_.layers.size(), analysis_.layers());
  const std::uint64_t layer = total_bytes(extents_.layers[1]);
  EXPECT_GT(layer, file / 10);
  EXPECT_LT(layer, file / 4);
  EXPECT_GE(total_bytes(extents_.embedding), 256U * 32U * 4U);
  EXPECT_GE(total_bytes(extents_.head), 256U * 32U * 4U);
  EXPECT_LT(total_bytes(extents_.shared), 1024U);
}

/// The tiny model again, with a .bin that holds the extents of one stage alone.
TEST_P(ExtentsTest, AreAllThatAStageReads) {
  const LayerRange range = {analysis_.layers() / 2, analysis_.layers()};
  const TemporaryDirectory directory;
  const auto bin = directory.path() / "openvino_model.bin";
  const auto bytes = ir_.weight_bytes();
  for (const char hole :
       {'\0', '\x5a'}) {  // as files have them, and what a read of them would show
    std::vector<char> holes(bytes.size(), hole);
    for (const ByteExtent extent : extents_.of(range)) {
      const auto* begin = reinterpret_cast<const char*>(bytes.data()) + extent.offset;
      std::copy(begin, begin + extent.size,
                holes.begin() + static_cast<std::ptrdiff_t>(extent.offset));
    }
    std::ofstream(bin, std::ios::binary)
        .write(holes.data(), static_cast<std::streamsize>(holes.size()));
    const std::filesystem::path xml =
        PACELINE_SOURCE_DIR "/tests/tiny_models/" + GetParam() + "/openvino_model.xml";
    const DecoderIr sparse = read_decoder_ir(core_, xml, bin).value();

    const auto expected_stage = analysis_.cut(range).value();
    const auto stage = DecoderAnalysis::analyse(sparse.model)->cut(range).value();
    const auto data = random_data(*stage, kSchedule, 0, 3).value();
    const auto expected =
        run_stateful(core_, expected_stage, exact_properties(1), kSchedule, data).value();
    const auto actual = run_stateful(core_, stage, exact_properties(1), kSchedule, data).value();
    EXPECT_EQ(largest_difference(kSchedule, expected, actual).value(), 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExtentsTest, testing::ValuesIn(tiny_model_names()),
                         [](const auto& info) { return info.param; });

TEST(TiedEmbeddingTest, IsReadByTheFirstAndTheLastStageOnly) {
  ov::Core core;
  const DecoderIr ir = read_tiny_model(core, "llama_tied");
  const auto analysis = DecoderAnalysis::analyse(ir.model).value();
  const auto extents = analysis.constant_extents(ir.weight_bytes()).value();
  constexpr std::uint64_t kTable = 256 * 32 * 4;
  const std::uint64_t sum = total_bytes(extents.of({0, 2})) + total_bytes(extents.of({2, 4}));
  EXPECT_GE(sum, ir.weight_bytes().size() + kTable);
  EXPECT_LT(total_bytes(extents.of({1, 3})), 3 * total_bytes(extents.layers[1]));
}

TEST(ConstantExtentsTest, RefusesAModelThatWasNotReadOnTheseBytes) {
  const auto analysis = DecoderAnalysis::analyse(handmade_decoder({})).value();
  const std::vector<std::byte> elsewhere(1024);
  const auto extents = analysis.constant_extents(elsewhere);
  ASSERT_FALSE(extents);
  EXPECT_EQ(extents.error().code(), ErrorCode::kFailedPrecondition);
}

class DecoderIrTest : public testing::Test {
 protected:
  Result<DecoderIr> read(const std::string& xml, const std::string& bin) {
    std::ofstream(directory_.path() / "m.xml") << xml;
    std::ofstream(directory_.path() / "m.bin") << bin;
    return read_decoder_ir(core_, directory_.path() / "m.xml", directory_.path() / "m.bin");
  }
  static std::string tiny_file(const char* name) {
    std::ifstream file(std::string(PACELINE_SOURCE_DIR "/tests/tiny_models/llama_tied/") + name,
                       std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  TemporaryDirectory directory_;
  ov::Core core_;
};

TEST_F(DecoderIrTest, NamesAMissingFile) {
  const auto missing = read_decoder_ir(core_, "/nonexistent/m.xml", "/nonexistent/m.bin");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message(), testing::HasSubstr("/nonexistent/m.xml"));
  EXPECT_EQ(read("<net/>", "").error().code(), ErrorCode::kNotFound);
}

TEST_F(DecoderIrTest, RefusesDamagedFiles) {
  const std::string xml = tiny_file("openvino_model.xml");
  const std::string bin = tiny_file("openvino_model.bin");
  ASSERT_TRUE(read(xml, bin));
  for (const auto& [text, bytes] : {std::pair<std::string, std::string>{"garbage", bin},
                                    {"<net/>", bin},
                                    {"", bin},
                                    {xml.substr(0, xml.size() / 2), bin},
                                    {xml, bin.substr(0, bin.size() / 2)}}) {
    const auto ir = read(text, bytes);
    ASSERT_FALSE(ir) << text.size() << " " << bytes.size();
    EXPECT_EQ(ir.error().code(), ErrorCode::kDataLoss);
    EXPECT_EQ(ir.error().message().find('\n'), std::string::npos) << ir.error().message();
  }
}

}  // namespace
}  // namespace paceline::cut
