// The check that ends every compile: stages of a model compute what the model computes, bit for
// bit.
//
// On the CPU in f32, a batch of two with left padding, a prefill and single-token steps, exact
// equality. Not a check of the model's quality, nor of a device's arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <openvino/runtime/core.hpp>

#include "base/error.h"
#include "base/ids.h"
#include "cut/cut.h"

namespace paceline::cut {

struct SelfTestOptions {
  /// What compiled models may take; a check that would need more is left out.
  std::uint64_t memory_bytes = std::numeric_limits<std::uint64_t>::max();
  std::uint32_t threads = 1;
  /// Called before each model that is run, with the number done and that of all; false asks for an
  /// end: the self-test returns kCancelled. By one thread at a time, like after_model. May be
  /// empty.
  std::function<bool(std::uint32_t, std::uint32_t)> progress = {};
  /// Called after each model that was run and freed: a place to give memory back. May be empty.
  std::function<void()> after_model = {};
  /// Makes the stages of the chains; empty: DecoderAnalysis::cut. Tests put wrong cuts here.
  std::function<Result<std::shared_ptr<ov::Model>>(LayerRange)> make_stage = {};
};

struct SelfTestReport {
  bool whole_checked = false;         ///< else windows were
  std::uint32_t windows_checked = 0;  ///< run, or of the form of one that was
  std::uint32_t window_forms = 0;     ///< run
  std::uint32_t windows_skipped = 0;  ///< for memory
  double largest_difference = 0.0;    ///< 0, or the self-test is an error
};

/// Where the model fits in memory, compares the whole uncut model with a chain of single layers and
/// with one of two halves. Where it does not, compares for each two neighbouring layers (the first
/// with the embedding, the last with the head) a chain of two stages with the uncut slice of both,
/// once for each form (form.h), overlapping ones in one slice. Where anything differs, windows,
/// each on its own, find the layers. Stages run one after the other over all steps; beside them
/// runs the uncut model, where memory holds both. kInternal, naming the layers, where any output
/// differs.
Result<SelfTestReport> self_test(ov::Core& core, const DecoderAnalysis& analysis,
                                 const SelfTestOptions& options);

}  // namespace paceline::cut
