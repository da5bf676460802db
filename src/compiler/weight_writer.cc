#include "compiler/weight_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/foreign_text.h"

namespace paceline::compiler {
namespace {

constexpr std::uint64_t kBlockBytes = 4U << 20;  ///< of values held at a time
constexpr std::string_view kPhase = "weights";

/// Converted rows on their way to the file.
class RowBuffer {
 public:
  RowBuffer(const WeightEncoding& encoding, std::uint64_t rows)
      : encoding_(encoding),
        values_(rows * encoding.row_bytes()),
        scales_(rows * encoding.groups()),
        zero_points_(encoding.has_zero_points ? scales_.size() : 0) {}

  EncodedRow row(std::uint64_t index) {
    const std::size_t groups = encoding_.groups();
    const std::span<std::uint16_t> zero_points(zero_points_);
    return {std::span(values_).subspan(index * encoding_.row_bytes(), encoding_.row_bytes()),
            std::span(scales_).subspan(index * groups, groups),
            encoding_.has_zero_points ? zero_points.subspan(index * groups, groups) : zero_points};
  }

  /// Writes the first `count` rows as rows `begin`... of the tensor.
  Status write(const StoredWeight& weight, std::uint64_t begin, std::uint64_t count, BinFile& bin) {
    const std::uint64_t scale_bytes = encoding_.groups() * sizeof(std::uint16_t);
    const auto put = [&](const StoredConstant& constant, std::span<const std::byte> all,
                         std::uint64_t row_bytes) {
      return bin.write(constant.offset + begin * row_bytes, all.first(count * row_bytes));
    };
    PACELINE_RETURN_IF_ERROR(put(weight.values, values_, encoding_.row_bytes()));
    if (encoding_.group == 0) return {};
    PACELINE_RETURN_IF_ERROR(put(weight.scales, std::as_bytes(std::span(scales_)), scale_bytes));
    if (!encoding_.has_zero_points) return {};
    return put(weight.zero_points, std::as_bytes(std::span(zero_points_)), scale_bytes);
  }

 private:
  const WeightEncoding& encoding_;
  std::vector<std::byte> values_;
  std::vector<std::uint16_t> scales_;
  std::vector<std::uint16_t> zero_points_;
};

/// Where the constants of a tensor will lie.
StoredWeight reserve(const WeightEncoding& encoding, bool is_vector, BinFile& bin) {
  StoredWeight weight;
  weight.encoding = encoding;
  const ov::Shape shape = is_vector ? ov::Shape{encoding.columns} : encoding.values_shape();
  weight.values = {encoding.type, shape, bin.reserve(encoding.rows * encoding.row_bytes())};
  if (encoding.group == 0) return weight;
  const ov::Shape scales = encoding.scales_shape();
  const std::uint64_t scale_bytes = ov::shape_size(scales) * sizeof(std::uint16_t);
  weight.scales = {ov::element::f16, scales, bin.reserve(scale_bytes)};
  if (encoding.has_zero_points) {
    weight.zero_points = {ov::element::f16, scales, bin.reserve(scale_bytes)};
  }
  return weight;
}

/// Calls back with the bytes done so far; false: stop.
using Report = std::function<bool(std::uint64_t)>;

Result<StoredWeight> write_tensor(const model::TensorSource& source, const PlannedTensor& planned,
                                  BinFile& bin, const Report& report) {
  const model::TensorInfo& tensor = *planned.pieces[0].source;
  const std::span<const std::byte> bytes = source.bytes(tensor);
  const bool is_vector = tensor.shape.size() == 1;
  WeightEncoding encoding;
  if (is_vector) {  // a norm's factors: small, and used in f32
    encoding.source = tensor.type;
    encoding.rows = 1;
    encoding.columns = tensor.shape[0];
  } else {
    PACELINE_ASSIGN_OR_RETURN(encoding, choose_encoding(tensor, bytes));
  }
  const StoredWeight weight = reserve(encoding, is_vector, bin);
  const std::uint64_t source_row_bytes = tensor.size_bytes / encoding.rows;
  const std::uint64_t step =
      std::clamp<std::uint64_t>(kBlockBytes / encoding.row_bytes(), 1, encoding.rows);
  RowBuffer buffer(encoding, step);
  for (std::uint64_t begin = 0; begin < encoding.rows; begin += step) {
    const std::uint64_t count = std::min(step, encoding.rows - begin);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t row = planned.order.source_row(begin + i);
      if (!encode_row(encoding, bytes.subspan(row * source_row_bytes, source_row_bytes),
                      buffer.row(i))) {
        return fail(ErrorCode::kDataLoss, "tensor {}: has a value in row {} that is not finite",
                    model::in_quotes(tensor.name), row);
      }
    }
    PACELINE_RETURN_IF_ERROR(buffer.write(weight, begin, count, bin));
    if (!report((begin + count) * source_row_bytes)) {
      return fail(ErrorCode::kCancelled, "cancelled while the weights were converted");
    }
  }
  return weight;
}

}  // namespace

Result<StoredWeights> write_weights(const model::TensorSource& source, const TensorPlan& plan,
                                    BinFile& bin, Progress& progress) {
  std::uint64_t total = 0;
  for (const PlannedTensor& planned : plan.tensors) total += planned.pieces[0].source->size_bytes;
  std::uint64_t done = 0;
  StoredWeights weights;
  for (const PlannedTensor& planned : plan.tensors) {
    const Report report = [&](std::uint64_t bytes) {
      return progress.update(kPhase, done + bytes, total);
    };
    auto weight = write_tensor(source, planned, bin, report);
    if (!weight) return fail(weight.error().with_context(source.name()));
    weights.emplace(planned.name, std::move(*weight));
    done += planned.pieces[0].source->size_bytes;
  }
  PACELINE_RETURN_IF_ERROR(bin.flush());
  return weights;
}

}  // namespace paceline::compiler
