#include "compiler/weight_binder.h"

#include <utility>

#include <openvino/op/convert.hpp>
#include <openvino/op/multiply.hpp>
#include <openvino/op/reshape.hpp>
#include <openvino/op/subtract.hpp>

#include "base/check.h"

namespace paceline::compiler {
namespace {

namespace op = ov::op;
using Output = ov::Output<ov::Node>;

Output convert(const Output& input, ov::element::Type type) {
  return std::make_shared<op::v0::Convert>(input, type);
}

std::uint64_t byte_size(const StoredConstant& stored) {
  return (ov::shape_size(stored.shape) * stored.type.bitwidth() + 7) / 8;
}

}  // namespace

WeightBinder::WeightBinder(StoredWeights weights, system::MappedFile file)
    : weights_(std::move(weights)),
      file_(std::make_shared<const system::MappedFile>(std::move(file))) {}

const StoredWeight& WeightBinder::stored(const std::string& name) const {
  const auto found = weights_.find(name);
  PACELINE_CHECK(found != weights_.end());
  return found->second;
}

std::shared_ptr<op::v0::Constant> WeightBinder::constant(const StoredConstant& stored,
                                                         const std::string& friendly_name) {
  PACELINE_CHECK(stored.offset + byte_size(stored) <= file_->bytes().size());
  // The constructor wants shared_ptr<void>; the mapping is never written through it.
  const auto owner = std::const_pointer_cast<system::MappedFile>(file_);
  auto node = std::make_shared<op::v0::Constant>(stored.type, stored.shape,
                                                 file_->bytes().data() + stored.offset, owner);
  node->set_friendly_name(friendly_name);
  offsets_.emplace(friendly_name, stored.offset);
  return node;
}

Output WeightBinder::matrix(const std::string& name) {
  if (const auto found = matrices_.find(name); found != matrices_.end()) return found->second;
  const StoredWeight& weight = stored(name);
  const std::string friendly_name = "self." + name;
  Output result = constant(weight.values, friendly_name);
  if (weight.encoding.group != 0) {
    result = convert(result, ov::element::f16);
    if (weight.encoding.has_zero_points) {
      result = std::make_shared<op::v1::Subtract>(
          result, constant(weight.zero_points, friendly_name + "/zero_point"));
    }
    result = std::make_shared<op::v1::Multiply>(result,
                                                constant(weight.scales, friendly_name + "/scale"));
    const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(weight.encoding.rows),
                                             static_cast<std::int64_t>(weight.encoding.columns)};
    result = std::make_shared<op::v1::Reshape>(
        result, op::v0::Constant::create(ov::element::i64, {2}, shape), false);
  }
  if (result.get_element_type() != ov::element::f32) result = convert(result, ov::element::f32);
  matrices_.emplace(name, result);
  return result;
}

Output WeightBinder::vector(const std::string& name) {
  StoredConstant view = stored(name).values;
  view.shape = {1, 1, ov::shape_size(view.shape)};
  return constant(view, "self." + name);
}

}  // namespace paceline::compiler
