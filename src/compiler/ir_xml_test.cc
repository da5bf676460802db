#include "compiler/ir_xml.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include <openvino/openvino.hpp>
#include <openvino/opsets/opset13.hpp>

#include "system/files.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
namespace op = ov::opset13;

TEST(PlaceConstantsTest, ReplacesTheOffsetsOfConstantsAlone) {
  const std::string xml =
      R"(<layer id="0" name="x" type="Parameter"><data shape="?" offset="7" /></layer>)"
      R"(<layer id="1" name="a" type="Const"><data element_type="f32" offset="0" size="4" /></layer>)"
      R"(<layer id="2" name="b" type="Const"><data offset="0" size="4" /></layer>)";
  const auto placed = place_constants(xml, {{"a", 640}, {"b", 12345678901}});
  ASSERT_TRUE(placed) << placed.error().message();
  EXPECT_EQ(
      *placed,
      R"(<layer id="0" name="x" type="Parameter"><data shape="?" offset="7" /></layer>)"
      R"(<layer id="1" name="a" type="Const"><data element_type="f32" offset="640" size="4" /></layer>)"
      R"(<layer id="2" name="b" type="Const"><data offset="12345678901" size="4" /></layer>)");
  const auto missing = place_constants(xml, {{"a", 640}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message(), "the constant b has no place in the .bin");
}

class IrXmlTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / fmt::format("paceline-xml-{}", ::getpid());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }
  fs::path directory_;
};

TEST_F(IrXmlTest, AModelIsReadBackWithConstantsWhereTheyLie) {
  BinFile bin = BinFile::create(directory_ / "m.bin").value();
  const std::vector<float> large(300, 2.5F);
  bin.reserve(100);  // something of others before it
  const std::uint64_t offset = bin.reserve(1200);
  ASSERT_TRUE(bin.write(offset, std::as_bytes(std::span(large))));

  const auto input = std::make_shared<op::Parameter>(ov::element::f32, ov::PartialShape{-1, 300});
  const auto weight = op::Constant::create(ov::element::f32, {1, 300}, large);
  weight->set_friendly_name("weight");
  const auto twin = op::Constant::create(ov::element::f32, {1, 300}, large);  // equal, not placed
  twin->set_friendly_name("twin");
  const auto sum = std::make_shared<op::Add>(std::make_shared<op::Add>(input, weight), twin);
  const auto axis = op::Constant::create(ov::element::i64, {1}, {1});
  const auto model = std::make_shared<ov::Model>(
      ov::OutputVector{std::make_shared<op::ReduceSum>(sum, axis)}, ov::ParameterVector{input});
  const Status written = write_ir_xml(model, {{"weight", offset}}, bin, directory_ / "m.xml");
  ASSERT_TRUE(written) << written.error().message();

  EXPECT_EQ(bin.size(), fs::file_size(directory_ / "m.bin"));
  EXPECT_LT(bin.size(), 128U + 1200 + 1280 + 128);  // the large one is there twice, not thrice
  const auto xml = system::read_text_file(directory_ / "m.xml", 1 << 20).value();
  EXPECT_NE(xml.find(fmt::format("offset=\"{}\"", offset)), std::string::npos);

  auto compiled = ov::Core().compile_model(directory_ / "m.xml", "CPU");
  auto request = compiled.create_infer_request();
  ov::Tensor ones(ov::element::f32, {2, 300});
  std::fill_n(ones.data<float>(), 600, 1.0F);
  request.set_input_tensor(ones);
  request.infer();
  EXPECT_FLOAT_EQ(request.get_output_tensor().data<float>()[1], 300 * 6.0F);
}

}  // namespace
}  // namespace paceline::compiler
