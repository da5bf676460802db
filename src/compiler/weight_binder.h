// Gives the graph its weights: constants that view the mapped .bin, with the nodes that turn the
// stored form into f32 (which plugins fuse away).
#pragma once

#include <map>
#include <memory>
#include <string>

#include <openvino/core/node_output.hpp>
#include <openvino/op/constant.hpp>

#include "compiler/weight_writer.h"
#include "system/files.h"

namespace paceline::compiler {

/// The constants share the mapping and keep it alive. Thread-compatible.
class WeightBinder {
 public:
  /// `file` is the flushed .bin that `weights` describes.
  WeightBinder(StoredWeights weights, system::MappedFile file);

  /// A matrix [rows, columns] in f32; the same nodes each time, so that a tied head shares them.
  /// Asking for what was not stored is a bug of ours.
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
  std::shared_ptr<const system::MappedFile> file_;  ///< shared: each constant holds it
  std::map<std::string, ov::Output<ov::Node>> matrices_;
  std::map<std::string, std::uint64_t> offsets_;
};

}  // namespace paceline::compiler
