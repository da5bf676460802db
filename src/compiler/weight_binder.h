// Gives the graph its weights: constants with the nodes that turn the stored form into f32 (which
// plugins fuse away).
//
// The constants hold zeros, one shared region of pages that were never written: the graph is made
// only to be written as .xml, over a .bin whose offsets are known. Views of the .bin would do too,
// but writing the .xml reads every constant, and so the whole .bin would count as memory.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <openvino/core/node_output.hpp>
#include <openvino/op/constant.hpp>

#include "compiler/stored_weight.h"
#include "system/files.h"

namespace paceline::compiler {

/// The constants keep the region alive. Thread-compatible.
class WeightBinder {
 public:
  explicit WeightBinder(StoredWeights weights);
  /// For a graph that is run as it is: constants are views of `file`, the flushed .bin.
  WeightBinder(StoredWeights weights, system::MappedFile file);

  /// A matrix [rows, columns], or a stack [experts, rows, columns], in f32; the same nodes each
  /// time, so that a tied head shares them. Asking for what was not stored is a bug of ours.
  ov::Output<ov::Node> matrix(const std::string& name);
  /// A vector in f32 of the shape [1, 1, length].
  ov::Output<ov::Node> vector(const std::string& name);

  /// Offsets in the .bin of the constants made so far, by friendly name ("self." + the tensor's,
  /// "/scale" or "/zero_point" appended).
  const std::map<std::string, std::uint64_t>& offsets() const { return offsets_; }

 private:
  const StoredWeight& stored(const std::string& name) const;
  std::shared_ptr<ov::op::v0::Constant> constant(const StoredConstant& stored,
                                                 const std::string& friendly_name);

  StoredWeights weights_;
  std::shared_ptr<void> region_;  ///< zeros or the file; shared: each constant holds it
  const std::byte* file_ = nullptr;
  std::map<std::string, ov::Output<ov::Node>> matrices_;
  std::map<std::string, std::uint64_t> offsets_;
};

}  // namespace paceline::compiler
