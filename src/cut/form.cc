#include "cut/form.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <iterator>
#include <unordered_map>
#include <utility>

#include <openvino/core/attribute_visitor.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/util/variable.hpp>

namespace paceline::cut {
namespace {

/// Constants up to this (axes, shapes, scalars) count by value.
constexpr std::size_t kSmallBytes = 32;

/// The place of a key among those seen so far.
using Numbers = std::unordered_map<const void*, std::size_t>;
std::size_t number_of(Numbers& numbers, const void* key) {
  return numbers.emplace(key, numbers.size()).first->second;
}

class FormWriter : public ov::AttributeVisitor {
 public:
  void add(const ov::Model& model) {
    Numbers nodes;
    for (const auto& node : model.get_ordered_ops()) {
      number_of(nodes, node.get());
      write("\n{} {}", node->get_type_info().name, node->get_type_info().version_id);
      for (const auto& input : node->input_values()) {
        write(" {}:{}", number_of(nodes, input.get_node()), input.get_index());
      }
      for (const auto& output : node->outputs()) {
        write(" {}{}", output.get_element_type().get_type_name(),
              output.get_partial_shape().to_string());
      }
      if (const auto constant = ov::as_type_ptr<ov::op::v0::Constant>(node)) {
        add(*constant);
      } else {
        node->visit_attributes(*this);
      }
    }
    write("\n;");
  }

  std::optional<std::string> take() {
    if (!is_understood_) return std::nullopt;
    return std::move(form_);
  }

  void on_adapter(const std::string& name, ov::ValueAccessor<void>& adapter) override {
    using Variable = ov::AttributeAdapter<std::shared_ptr<ov::op::util::Variable>>;
    if (auto* variable = ov::as_type<Variable>(&adapter)) {
      write(" {}={}", name, number_of(variables_, variable->get().get()));
    } else if (auto* shape = ov::as_type<ov::AttributeAdapter<ov::PartialShape>>(&adapter)) {
      write(" {}={}", name, shape->get().to_string());
    } else {
      is_understood_ = false;
    }
  }
  // What is not overridden ends up above.
  void on_adapter(const std::string& name, ov::ValueAccessor<std::string>& adapter) override {
    // A variable's id names its layer; which variables are the same is told by the nodes.
    if (name != "variable_id") write(" {}={}", name, adapter.get());
  }
  void on_adapter(const std::string& name, ov::ValueAccessor<bool>& adapter) override {
    write(" {}={}", name, adapter.get());
  }
  void on_adapter(const std::string& name, ov::ValueAccessor<std::int64_t>& adapter) override {
    write(" {}={}", name, adapter.get());
  }
  void on_adapter(const std::string& name, ov::ValueAccessor<double>& adapter) override {
    write(" {}={}", name, adapter.get());
  }
  void on_adapter(const std::string& name,
                  ov::ValueAccessor<std::vector<std::int64_t>>& adapter) override {
    write(" {}={}", name, fmt::join(adapter.get(), ","));
  }
  void on_adapter(const std::string& name,
                  ov::ValueAccessor<std::vector<std::uint64_t>>& adapter) override {
    write(" {}={}", name, fmt::join(adapter.get(), ","));
  }
  void on_adapter(const std::string& name,
                  ov::ValueAccessor<std::vector<float>>& adapter) override {
    write(" {}={}", name, fmt::join(adapter.get(), ","));
  }

 private:
  template <typename... Args>
  void write(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(form_), text, std::forward<Args>(args)...);
  }

  void add(const ov::op::v0::Constant& constant) {
    if (constant.get_byte_size() > kSmallBytes) {
      write(" #{}", number_of(weights_, constant.get_data_ptr()));
      return;
    }
    const auto* bytes = static_cast<const unsigned char*>(constant.get_data_ptr());
    write(" ={:02x}", fmt::join(bytes, bytes + constant.get_byte_size(), ""));
  }

  std::string form_;
  Numbers variables_;
  Numbers weights_;
  bool is_understood_ = true;
};

}  // namespace

std::optional<std::string> form_of(const std::vector<std::shared_ptr<ov::Model>>& models) {
  FormWriter writer;
  for (const auto& model : models) writer.add(*model);
  return writer.take();
}

}  // namespace paceline::cut
