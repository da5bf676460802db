#include "compiler/weight_layout.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace paceline::compiler {
namespace {

/// Where the constants of a tensor will lie.
StoredWeight reserve(const WeightEncoding& encoding, bool is_vector, BinFile& bin) {
  StoredWeight weight;
  weight.encoding = encoding;
  const std::uint64_t elements = encoding.rows * encoding.columns;
  const ov::Shape shape = is_vector ? ov::Shape{elements} : encoding.values_shape();
  weight.values = {encoding.type, shape, bin.reserve(encoding.value_bytes())};
  if (encoding.group == 0) return weight;
  const ov::Shape scales = encoding.scales_shape();
  weight.scales = {ov::element::f16, scales, bin.reserve(encoding.scale_bytes())};
  if (encoding.zero_points != ZeroPoints::kNone) {
    weight.zero_points = {encoding.zero_point_type(), scales,
                          bin.reserve(encoding.zero_point_bytes())};
  }
  return weight;
}

std::uint64_t rows_of_a_block(const WeightJob& job) {
  const WeightEncoding& encoding = job.weight.encoding;
  const std::uint64_t row = std::max(job.reader.row_bytes(), encoding.row_bytes());
  return std::max<std::uint64_t>(kBlockBytes / row / 2 * 2, 2);
}

}  // namespace

WeightBlock WeightLayout::block(std::uint64_t index) const {
  PACELINE_CHECK(index < blocks);
  const auto after =
      std::upper_bound(jobs.begin(), jobs.end(), index,
                       [](std::uint64_t i, const WeightJob& job) { return i < job.first_block; });
  const auto job = std::prev(after);
  const std::uint64_t begin = (index - job->first_block) * job->block_rows;
  return {static_cast<std::size_t>(job - jobs.begin()), begin,
          std::min(begin + job->block_rows, job->weight.encoding.rows)};
}

std::uint64_t WeightLayout::largest_block_bytes() const {
  std::uint64_t largest = 0;
  for (const WeightJob& job : jobs) {
    const WeightEncoding& encoding = job.weight.encoding;
    const std::uint64_t rows = std::min(job.block_rows, encoding.rows);
    const std::uint64_t scales = 4 * encoding.groups();  // f16, and f16 zero points
    largest = std::max(largest, rows * (job.reader.row_bytes() + encoding.row_bytes() + scales));
  }
  return largest;
}

std::string WeightLayout::describe() const {
  std::string text;
  for (const WeightJob& job : jobs) {
    const WeightEncoding& encoding = job.weight.encoding;
    text += fmt::format(
        "{} {} {} {}x{} group {} zero points {} search {} at {} blocks of {}\n", job.tensor->name,
        model::to_string(encoding.source), encoding.type.get_type_name(), encoding.rows,
        encoding.columns, encoding.group, static_cast<int>(encoding.zero_points),
        encoding.quantized && encoding.quantized->search, job.weight.values.offset, job.block_rows);
  }
  return text;
}

Result<WeightLayout> lay_out_weights(const model::TensorSource& source, const TensorPlan& plan,
                                     const LayoutOptions& options, BinFile& bin) {
  WeightLayout layout;
  const WeightOptions& weights = options.weights;
  for (const PlannedTensor& tensor : plan.tensors) {
    WeightEncoding encoding = choose_encoding(tensor, kind_of(tensor, weights), weights);
    if (options.plain.contains(tensor.name)) encoding = as_f32(encoding);
    PACELINE_ASSIGN_OR_RETURN(
        auto reader,
        RowReader::create(source, tensor, {encoding.rows, encoding.columns}, options.fp8_block));
    WeightJob job = {&tensor, std::move(reader), reserve(encoding, tensor.shape.size() == 1, bin),
                     0, layout.blocks};
    job.weight.source_bytes = job.reader.source_bytes();
    job.block_rows = rows_of_a_block(job);
    layout.blocks += (encoding.rows + job.block_rows - 1) / job.block_rows;
    layout.source_bytes += job.weight.source_bytes;
    layout.jobs.push_back(std::move(job));
  }
  return layout;
}

std::vector<std::string> remarks_on(const WeightLayout& layout, const WeightOptions& options) {
  std::map<std::uint64_t, std::uint64_t> groups;  // by columns; 0: int8
  for (const WeightJob& job : layout.jobs) {
    const WeightKind kind = kind_of(*job.tensor, options);
    if (kind != WeightKind::kInt4 && kind != WeightKind::kInt4Asymmetric) continue;
    const std::uint64_t columns = job.weight.encoding.columns;
    groups[columns] = group_for(columns, options.group);
  }
  std::vector<std::string> remarks;
  for (const auto& [columns, group] : groups) {
    if (group == options.group) continue;
    const std::string form = group == 0 ? "int8" : fmt::format("groups of {}", group);
    remarks.push_back(fmt::format("matrices of {} columns, which {} does not divide, are in {}",
                                  columns, options.group, form));
  }
  return remarks;
}

}  // namespace paceline::compiler
