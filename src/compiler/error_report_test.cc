#include "compiler/error_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "compiler/error_plot.h"
#include "system/files.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

StoredWeight int4_weight(std::uint64_t offset, double error) {
  StoredWeight weight;
  weight.encoding.source = model::TensorType::kBF16;
  weight.encoding.type = ov::element::i4;
  weight.encoding.rows = 64;
  weight.encoding.columns = 256;
  weight.encoding.group = 128;
  weight.values = {ov::element::i4, weight.encoding.values_shape(), offset};
  weight.source_bytes = 64 * 256 * 2;
  weight.errors = {100.0, error * error * 100.0, 10.0, error * error * 40.0, 2.0F, 0.5F};
  return weight;
}

/// Three layers and a norm that lost nothing; names do not sort as layers do.
StoredWeights example() {
  StoredWeight norm;
  norm.encoding.rows = 256;
  norm.encoding.columns = 1;
  norm.values = {ov::element::f32, {256}, 9000};
  norm.source_bytes = 1024;
  return {{"model.layers.10.mlp.up_proj.weight", int4_weight(3000, 0.3)},
          {"model.layers.2.mlp.up_proj.weight", int4_weight(2000, 0.2)},
          {"model.layers.1.self_attn.q_proj.weight", int4_weight(1000, 0.1)},
          {"model.norm.weight", norm}};
}

TEST(ErrorReportTest, TensorsAreInTheOrderOfTheFileWithTheirSizesAndErrors) {
  const WeightsReport report = report_on("m", example());
  ASSERT_EQ(report.tensors.size(), 4U);
  const TensorReport& first = report.tensors[0];
  EXPECT_EQ(first.name, "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(first.part, "self_attn.q_proj");
  EXPECT_EQ(first.layer, 1U);
  EXPECT_EQ(first.shape, (std::vector<std::uint64_t>{64, 256}));
  EXPECT_EQ(first.stored_bytes, 64U * 128 + 64 * 2 * 2);
  EXPECT_DOUBLE_EQ(first.bits_per_weight(), 4.125);
  EXPECT_NEAR(first.error, 0.1, 1e-12);
  EXPECT_NEAR(first.weighted_error, 0.2, 1e-12);
  EXPECT_DOUBLE_EQ(first.largest_error, 0.25);
  EXPECT_EQ(report.tensors[1].layer, 2U);
  EXPECT_EQ(report.tensors[2].layer, 10U);
  EXPECT_EQ(report.tensors[3].layer, std::nullopt);
  EXPECT_EQ(report.tensors[3].shape, std::vector<std::uint64_t>{256});
  EXPECT_EQ(report.elements, 3U * 64 * 256 + 256);
  EXPECT_NEAR(report.error, std::sqrt((0.01 + 0.04 + 0.09) / 3), 1e-9);
}

TEST(ErrorReportTest, TheJsonHasEveryTensor) {
  const auto json = nlohmann::json::parse(report_json(report_on("a \"model\" \xff", example())));
  EXPECT_EQ(json["tensors"].size(), 4U);
  EXPECT_EQ(json["tensors"][2]["name"], "model.layers.10.mlp.up_proj.weight");
  EXPECT_NEAR(json["tensors"][2]["relative_error"].get<double>(), 0.3, 1e-12);
  EXPECT_EQ(json["tensors"][2]["stored"], "i4");
  EXPECT_EQ(json["tensors"][2]["source"], "BF16");
  EXPECT_FALSE(json["tensors"][3].contains("layer"));
  EXPECT_GT(json["bits_per_weight"].get<double>(), 4.0);
}

TEST(ErrorReportTest, ThePageStandsAloneWithALineForEachPart) {
  const std::string html = report_html(report_on("<script>alert(1)</script>", example()));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, Not(HasSubstr("href=")));
  std::size_t lines = 0;
  for (auto at = html.find("<polyline"); at != std::string::npos;
       at = html.find("<polyline", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 2U);
  EXPECT_THAT(html, HasSubstr("mlp.up_proj 10: 0.30000"));
  const std::string lossless = report_html(report_on("m", {}));
  EXPECT_THAT(lossless, HasSubstr("No matrix of a layer lost anything"));
}

TEST(ErrorReportTest, AFileOrADirectoryIsWritten) {
  const fs::path root = fs::temp_directory_path() / fmt::format("paceline-report-{}", ::getpid());
  fs::create_directories(root);
  const WeightsReport report = report_on("m", example());
  ASSERT_TRUE(write_report(report, root / "only.json"));
  ASSERT_TRUE(write_report(report, root / "only.html"));
  ASSERT_TRUE(write_report(report, root / "new" / "directory"));
  EXPECT_EQ(system::read_text_file(root / "only.json", 1U << 20).value(), report_json(report));
  EXPECT_EQ(system::read_text_file(root / "new" / "directory" / "report.html", 1U << 20).value(),
            report_html(report));
  EXPECT_TRUE(fs::exists(root / "new" / "directory" / "report.json"));
  EXPECT_FALSE(write_report(report, root / "only.json" / "below"));
  fs::remove_all(root);
}

TEST(ErrorPlotTest, PointsLieOnAxesThatBeginAtZero) {
  const std::string svg = plot_svg({{"a", {{0, 0.1}, {4, 0.2}}}, {"b", {{2, 0.05}}}}, "x", "y");
  EXPECT_THAT(svg, HasSubstr("points=\"70.0,"));  // x = 0 is the left end
  EXPECT_THAT(svg, HasSubstr(">0.15</text>"));    // steps of 0.05
  EXPECT_THAT(svg, HasSubstr("730.0,"));          // the largest x is the right end
  EXPECT_THAT(plot_svg({{"flat", {{0, 0.0}}}}, "x", "y"), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace paceline::compiler
