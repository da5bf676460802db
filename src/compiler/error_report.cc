#include "compiler/error_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/html.h"
#include "compiler/error_plot.h"
#include "compiler/weight_options.h"
#include "model/tensor_source.h"
#include "system/files.h"

namespace paceline::compiler {
namespace {

TensorReport report_on_tensor(const std::string& name, const StoredWeight& weight) {
  const WeightEncoding& encoding = weight.encoding;
  TensorReport report;
  report.name = name;
  report.part = part_of(name);
  report.layer = layer_of(name);
  report.shape = {encoding.rows, encoding.columns};
  if (encoding.experts != 0) {
    report.shape = {encoding.experts, encoding.rows / encoding.experts, encoding.columns};
  }
  if (weight.values.shape.size() == 1) report.shape = {encoding.rows * encoding.columns};
  report.source_type = model::to_string(encoding.source);
  report.stored_type = encoding.type.get_type_name();
  report.group = encoding.group;
  report.source_bytes = weight.source_bytes;
  report.stored_bytes = weight.stored_bytes();
  report.elements = encoding.rows * encoding.columns;
  report.error = weight.errors.relative();
  report.weighted_error = weight.errors.weighted_relative();
  if (weight.errors.largest_value > 0.0F) {
    report.largest_error =
        static_cast<double>(weight.errors.largest_error) / weight.errors.largest_value;
  }
  return report;
}

nlohmann::ordered_json to_json(const TensorReport& tensor) {
  nlohmann::ordered_json json;
  json["name"] = tensor.name;
  json["part"] = tensor.part;
  if (tensor.layer) json["layer"] = *tensor.layer;
  json["shape"] = tensor.shape;
  json["source"] = tensor.source_type;
  json["stored"] = tensor.stored_type;
  json["group"] = tensor.group;
  json["bits_per_weight"] = tensor.bits_per_weight();
  json["source_bytes"] = tensor.source_bytes;
  json["stored_bytes"] = tensor.stored_bytes;
  json["relative_error"] = tensor.error;
  json["weighted_error"] = tensor.weighted_error;
  json["largest_error"] = tensor.largest_error;
  return json;
}

double bits(std::uint64_t bytes, std::uint64_t elements) {
  return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
}

constexpr std::string_view kStyle =
    "body{font:14px system-ui,sans-serif;margin:2em auto;max-width:72em;color:#222}"
    "table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right;"
    "border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}"
    "svg{width:100%;height:auto}";

std::string table(const WeightsReport& report) {
  std::string html =
      "<table><tr><th>tensor<th>shape<th>source<th>stored<th>group<th>bits<th>MB<th>error<th>"
      "weighted<th>largest</tr>\n";
  for (const TensorReport& tensor : report.tensors) {
    html += fmt::format(
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.2f}<td>{:.2f}<td>{:.5f}<td>{:.5f}<td>{:.5f}"
        "</tr>\n",
        escape_html(tensor.name), fmt::join(tensor.shape, " &times; "), tensor.source_type,
        tensor.stored_type, tensor.group, tensor.bits_per_weight(),
        static_cast<double>(tensor.stored_bytes) / 1e6, tensor.error, tensor.weighted_error,
        tensor.largest_error);
  }
  return html + "</table>\n";
}

/// One line for each part of a layer that lost something in some layer.
std::vector<PlotLine> plot_lines(const WeightsReport& report) {
  std::vector<PlotLine> lines;
  for (const TensorReport& tensor : report.tensors) {
    if (!tensor.layer || tensor.error == 0.0) continue;
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const PlotLine& known) { return known.name == tensor.part; });
    if (line == lines.end()) line = lines.insert(lines.end(), {tensor.part, {}});
    line->points.push_back({static_cast<double>(*tensor.layer), tensor.error});
  }
  return lines;
}

}  // namespace

double TensorReport::bits_per_weight() const { return bits(stored_bytes, elements); }

WeightsReport report_on(std::string model, const StoredWeights& weights) {
  WeightsReport report;
  report.model = std::move(model);
  std::vector<std::pair<std::uint64_t, TensorReport>> by_offset;
  ErrorSums all;
  for (const auto& [name, weight] : weights) {
    by_offset.emplace_back(weight.values.offset, report_on_tensor(name, weight));
    all.add(weight.errors);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const auto& left, const auto& right) { return left.first < right.first; });
  for (auto& [offset, tensor] : by_offset) {
    report.source_bytes += tensor.source_bytes;
    report.stored_bytes += tensor.stored_bytes;
    report.elements += tensor.elements;
    report.tensors.push_back(std::move(tensor));
  }
  report.error = all.relative();
  report.weighted_error = all.weighted_relative();
  return report;
}

std::string report_json(const WeightsReport& report) {
  nlohmann::ordered_json json;
  json["model"] = report.model;
  json["relative_error"] = report.error;
  json["weighted_error"] = report.weighted_error;
  json["source_bytes"] = report.source_bytes;
  json["stored_bytes"] = report.stored_bytes;
  json["bits_per_weight"] = bits(report.stored_bytes, report.elements);
  json["tensors"] = nlohmann::ordered_json::array();
  for (const TensorReport& tensor : report.tensors) json["tensors"].push_back(to_json(tensor));
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string report_html(const WeightsReport& report) {
  const std::string model = escape_html(report.model);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}: weights</title>"
      "<style>{1}</style></head><body>\n<h1>{0}</h1>\n",
      model, kStyle);
  html += fmt::format(
      "<p>{:.2f} MB of weights became {:.2f} MB, {:.2f} bits a weight. The error is the root mean "
      "square of what was lost, relative to that of the weights: {:.5f} over all ({:.5f} where "
      "large weights count more).</p>\n",
      static_cast<double>(report.source_bytes) / 1e6,
      static_cast<double>(report.stored_bytes) / 1e6, bits(report.stored_bytes, report.elements),
      report.error, report.weighted_error);
  const std::vector<PlotLine> lines = plot_lines(report);
  html += lines.empty() ? "<p>No matrix of a layer lost anything.</p>\n"
                        : plot_svg(lines, "layer", "relative error");
  return html + table(report) + "</body></html>\n";
}

Status write_report(const WeightsReport& report, const std::filesystem::path& path) {
  const auto extension = path.extension();
  if (extension == ".json") return system::write_file_atomically(path, report_json(report));
  if (extension == ".html") return system::write_file_atomically(path, report_html(report));
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) {
    return fail(ErrorCode::kPermissionDenied, "{}: cannot create the directory: {}", path.string(),
                code.message());
  }
  PACELINE_RETURN_IF_ERROR(
      system::write_file_atomically(path / "report.json", report_json(report)));
  return system::write_file_atomically(path / "report.html", report_html(report));
}

}  // namespace paceline::compiler
