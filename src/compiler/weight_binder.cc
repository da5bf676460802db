#include "compiler/weight_binder.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

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

/// [..., groups, group] -> [..., groups * group]
Output without_groups(const Output& grouped) {
  const ov::Shape& from = grouped.get_shape();
  std::vector<std::int64_t> shape(from.begin(), from.end() - 1);
  shape.back() *= static_cast<std::int64_t>(from.back());
  const auto target = op::v0::Constant::create(ov::element::i64, {shape.size()}, shape);
  return std::make_shared<op::v1::Reshape>(grouped, target, false);
}

std::uint64_t byte_size(const StoredConstant& stored) {
  return (ov::shape_size(stored.shape) * stored.type.bitwidth() + 7) / 8;
}

/// Read-only zeros. Reading them maps the kernel's one page of zeros, which counts as nobody's.
std::shared_ptr<void> zero_pages(std::uint64_t bytes) {
  void* pages =
      ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return {pages, [bytes](void* data) { ::munmap(data, bytes); }};
}

}  // namespace

WeightBinder::WeightBinder(StoredWeights weights) : weights_(std::move(weights)) {
  std::uint64_t largest = 1;
  for (const auto& [name, weight] : weights_) {
    largest = std::max(largest, byte_size(weight.values));
    largest = std::max(largest, byte_size(weight.scales));
  }
  region_ = zero_pages(largest);
}

WeightBinder::WeightBinder(StoredWeights weights, system::MappedFile file)
    : weights_(std::move(weights)) {
  const auto shared = std::make_shared<system::MappedFile>(std::move(file));
  file_ = shared->bytes().data();
  region_ = shared;
}

const StoredWeight& WeightBinder::stored(const std::string& name) const {
  const auto found = weights_.find(name);
  PACELINE_CHECK(found != weights_.end());
  return found->second;
}

std::shared_ptr<op::v0::Constant> WeightBinder::constant(const StoredConstant& stored,
                                                         const std::string& friendly_name) {
  const void* data = file_ == nullptr ? region_.get() : file_ + stored.offset;
  auto node = std::make_shared<op::v0::Constant>(stored.type, stored.shape, data, region_);
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
    if (weight.encoding.zero_points != ZeroPoints::kNone) {
      Output zero_points = constant(weight.zero_points, friendly_name + "/zero_point");
      if (weight.zero_points.type != ov::element::f16) {
        zero_points = convert(zero_points, ov::element::f16);
      }
      result = std::make_shared<op::v1::Subtract>(result, zero_points);
    }
    result = std::make_shared<op::v1::Multiply>(result,
                                                constant(weight.scales, friendly_name + "/scale"));
    if (!weight.encoding.is_by_row()) result = without_groups(result);
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
