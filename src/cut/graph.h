// A model's nodes as dense numbers in topological order, with the edges both ways.
//
// The cut's algorithms mark and look up nodes by number: friendly names are not unique in every IR,
// and vectors beat hash tables on graphs of ten thousand nodes. Read-only; the model is not
// changed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <openvino/core/model.hpp>

namespace paceline::cut {

/// A node's place in the topological order: inputs have smaller numbers than their users.
using NodeId = std::uint32_t;

/// One output of a node.
struct Port {
  NodeId node = 0;
  std::uint32_t output = 0;
  friend bool operator==(Port, Port) = default;
};

/// A node that reads an output of another.
struct Use {
  NodeId user = 0;
  std::uint32_t output = 0;  ///< the output that is read
};

/// What the cut distinguishes; everything else is kOther.
enum class NodeKind : std::uint8_t {
  kOther,
  kParameter,
  kConstant,
  kResult,
  kShapeOf,
  kReadValue,
  kAssign,
  kAttention,
};

/// Holds the model alive. Immutable after construction, so thread-safe.
class Graph {
 public:
  explicit Graph(std::shared_ptr<const ov::Model> model);

  const std::shared_ptr<const ov::Model>& model() const { return model_; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }
  const std::shared_ptr<ov::Node>& node(NodeId id) const { return nodes_[id]; }
  NodeKind kind(NodeId id) const { return kinds_[id]; }
  /// The sources of the node's inputs, in input order.
  std::span<const Port> inputs(NodeId id) const { return inputs_[id]; }
  std::span<const Use> users(NodeId id) const { return users_[id]; }
  /// The number of a node of this model.
  NodeId id_of(const ov::Node* node) const { return ids_.at(node); }

  const ov::PartialShape& shape(Port port) const {
    return nodes_[port.node]->get_output_partial_shape(port.output);
  }
  /// The variable of a ReadValue or an Assign; empty for other nodes.
  std::string variable_id(NodeId id) const;
  /// For messages: "name (Type)", or "name (Type of variable)".
  std::string describe(NodeId id) const;

 private:
  std::shared_ptr<const ov::Model> model_;
  std::vector<std::shared_ptr<ov::Node>> nodes_;
  std::vector<NodeKind> kinds_;
  std::vector<std::vector<Port>> inputs_;
  std::vector<std::vector<Use>> users_;
  std::unordered_map<const ov::Node*, NodeId> ids_;
};

}  // namespace paceline::cut
