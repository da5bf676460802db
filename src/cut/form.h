// Whether graphs are computed alike: all that decides it but the values of their weights.
//
// A decoder's layers are copies of one another, so what was seen of a few layers in one form holds
// for all others in that form.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <openvino/core/model.hpp>

namespace paceline::cut {

/// The form of a window's models, the uncut one first. Equal where, model by model, nodes of the
/// same types, attributes, shapes and small constants are connected in the same way, and where the
/// larger constants, known by their memory, are shared among the models alike. Nothing where a node
/// has an attribute that is not understood.
std::optional<std::string> form_of(const std::vector<std::shared_ptr<ov::Model>>& models);

}  // namespace paceline::cut
