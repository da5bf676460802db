#include "cut/self_test.h"

#include <algorithm>
#include <future>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cut/form.h"
#include "cut/stateful_run.h"

namespace paceline::cut {
namespace {

constexpr std::uint32_t kSeed = 20240229;

/// Of each step.
using Outputs = std::vector<ov::Tensor>;

/// What a stage takes: the plugin packs the weights into memory of its own, f16 and bf16 as f32
/// (2.1 times covers that), besides the mapped pages.
std::uint64_t compiled_bytes(std::uint64_t constant_bytes) {
  return constant_bytes + constant_bytes / 10 * 11;
}

std::vector<LayerRange> single_layers(LayerRange range) {
  std::vector<LayerRange> layers;
  for (std::uint32_t layer = range.begin; layer < range.end; ++layer) {
    layers.push_back({layer, layer + 1});
  }
  return layers;
}

class SelfTest {
 public:
  SelfTest(ov::Core& core, const DecoderAnalysis& analysis, const SelfTestOptions& options)
      : core_(core), analysis_(analysis), options_(options) {}
  Result<SelfTestReport> run();

 private:
  Result<std::shared_ptr<ov::Model>> stage(LayerRange range) const;
  Result<bool> fits(LayerRange range) const;
  Result<Outputs> run_model(const std::shared_ptr<const ov::Model>& model, const Outputs& data,
                            std::uint32_t threads);
  Result<Outputs> run_chain(std::span<const LayerRange> chain, const Outputs& data,
                            std::uint32_t threads);
  Result<bool> may_run_beside(const std::vector<std::vector<LayerRange>>& chains) const;
  Result<std::vector<LayerRange>> windows_that_fit() const;
  Status check_forms();
  Result<std::vector<LayerRange>> first_of_each_form(std::span<const LayerRange> windows) const;
  Result<std::vector<LayerRange>> united(std::span<const LayerRange> windows) const;
  Status check_slices(std::span<const LayerRange> slices);
  Status check_windows();
  Status check_whole();
  Status check_chain(const std::shared_ptr<const ov::Model>& uncut,
                     const std::vector<std::vector<LayerRange>>& chains);

  ov::Core& core_;
  const DecoderAnalysis& analysis_;
  const SelfTestOptions& options_;
  /// A prefill, a chunk, and single tokens, which take other kernels.
  const BatchSchedule batch_ = {{3, 0}, {6, 1, 3, 1}};
  SelfTestReport report_;
  std::mutex mutex_;  ///< guards what follows, and the calls of `options_`
  std::uint32_t done_ = 0;
  std::uint32_t total_ = 0;
};

Result<std::shared_ptr<ov::Model>> SelfTest::stage(LayerRange range) const {
  return options_.make_stage ? options_.make_stage(range) : analysis_.cut(range);
}

Result<bool> SelfTest::fits(LayerRange range) const {
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t bytes, analysis_.constant_bytes(range));
  return compiled_bytes(bytes) <= options_.memory_bytes;
}

Result<Outputs> SelfTest::run_model(const std::shared_ptr<const ov::Model>& model,
                                    const Outputs& data, std::uint32_t threads) {
  {
    const std::lock_guard lock(mutex_);
    if (options_.progress && !options_.progress(done_, total_)) {
      return fail(ErrorCode::kCancelled, "self-test: cancelled after {} of {} models", done_,
                  total_);
    }
    done_ = std::min(done_ + 1, total_);
  }
  auto outputs = run_stateful(core_, model, exact_properties(threads), batch_, data);
  const std::lock_guard lock(mutex_);
  if (options_.after_model) options_.after_model();
  return outputs;
}

Result<Outputs> SelfTest::run_chain(std::span<const LayerRange> chain, const Outputs& data,
                                    std::uint32_t threads) {
  Outputs tensors = data;
  for (const LayerRange range : chain) {
    PACELINE_ASSIGN_OR_RETURN(const auto model, stage(range));
    PACELINE_ASSIGN_OR_RETURN(tensors, run_model(model, tensors, threads));
  }
  return tensors;
}

/// Half of what both sides do keeps only one core busy, so they run beside each other where both
/// fit in memory.
Result<bool> SelfTest::may_run_beside(const std::vector<std::vector<LayerRange>>& chains) const {
  if (options_.threads < 2) return false;
  const LayerRange whole = {chains.front().front().begin, chains.front().back().end};
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t whole_bytes, analysis_.constant_bytes(whole));
  std::uint64_t stage_bytes = 0;
  for (const auto& chain : chains) {
    for (const LayerRange range : chain) {
      PACELINE_ASSIGN_OR_RETURN(const std::uint64_t bytes, analysis_.constant_bytes(range));
      stage_bytes = std::max(stage_bytes, bytes);
    }
  }
  return compiled_bytes(whole_bytes + stage_bytes) <= options_.memory_bytes;
}

Status SelfTest::check_chain(const std::shared_ptr<const ov::Model>& uncut,
                             const std::vector<std::vector<LayerRange>>& chains) {
  PACELINE_ASSIGN_OR_RETURN(const auto data,
                            random_data(*uncut, batch_, analysis_.vocabulary_size(), kSeed));
  PACELINE_ASSIGN_OR_RETURN(const bool beside, may_run_beside(chains));
  const std::uint32_t threads = beside ? options_.threads / 2 : options_.threads;
  auto expected = std::async(beside ? std::launch::async : std::launch::deferred,
                             [&] { return run_model(uncut, data, threads); });
  std::vector<Outputs> outputs;
  for (const auto& chain : chains) {
    PACELINE_ASSIGN_OR_RETURN(outputs.emplace_back(), run_chain(chain, data, threads));
  }
  PACELINE_ASSIGN_OR_RETURN(const Outputs right, expected.get());
  for (std::size_t index = 0; index < chains.size(); ++index) {
    PACELINE_ASSIGN_OR_RETURN(const double difference,
                              largest_difference(batch_, right, outputs[index]));
    if (difference > 0.0) {
      return fail(ErrorCode::kInternal,
                  "self-test: layers {}..{} in {} stages differ from the uncut graph by {}",
                  chains[index].front().begin, chains[index].back().end, chains[index].size(),
                  difference);
    }
  }
  return {};
}

Result<std::vector<LayerRange>> SelfTest::windows_that_fit() const {
  std::vector<LayerRange> windows;
  for (std::uint32_t layer = 0; layer + 1 < analysis_.layers(); ++layer) {
    PACELINE_ASSIGN_OR_RETURN(const bool fit, fits({layer, layer + 2}));
    if (fit) windows.push_back({layer, layer + 2});
  }
  return windows;
}

/// The first of each form, and all whose form cannot be told.
Result<std::vector<LayerRange>> SelfTest::first_of_each_form(
    std::span<const LayerRange> windows) const {
  std::vector<LayerRange> first;
  std::set<std::string> seen;
  LayerRange last_range;
  std::shared_ptr<ov::Model> last;  // the right layer of a window is the next one's left
  for (const LayerRange window : windows) {
    const LayerRange left_range = {window.begin, window.begin + 1};
    PACELINE_ASSIGN_OR_RETURN(auto uncut, analysis_.cut(window));
    auto left = std::move(last);
    if (!left || last_range != left_range) {
      PACELINE_ASSIGN_OR_RETURN(left, stage(left_range));
    }
    last_range = {window.begin + 1, window.end};
    PACELINE_ASSIGN_OR_RETURN(last, stage(last_range));
    auto form = form_of({std::move(uncut), std::move(left), last});
    if (!form || seen.insert(*std::move(form)).second) first.push_back(window);
  }
  return first;
}

/// Windows that overlap as one, where it fits: fewer layers are run twice.
Result<std::vector<LayerRange>> SelfTest::united(std::span<const LayerRange> windows) const {
  std::vector<LayerRange> slices;
  for (const LayerRange window : windows) {
    if (!slices.empty() && window.begin < slices.back().end) {
      const LayerRange both = {slices.back().begin, window.end};
      PACELINE_ASSIGN_OR_RETURN(const bool fit, fits(both));
      if (fit) {
        slices.back() = both;
        continue;
      }
    }
    slices.push_back(window);
  }
  return slices;
}

Status SelfTest::check_slices(std::span<const LayerRange> slices) {
  for (const LayerRange slice : slices) total_ += 1 + slice.size();
  for (const LayerRange slice : slices) {
    PACELINE_ASSIGN_OR_RETURN(const auto uncut, analysis_.cut(slice));
    PACELINE_RETURN_IF_ERROR(check_chain(uncut, {single_layers(slice)}));
  }
  return {};
}

/// Each on its own, to find the layers of a difference.
Status SelfTest::check_windows() {
  PACELINE_ASSIGN_OR_RETURN(const auto windows, windows_that_fit());
  return check_slices(windows);
}

Status SelfTest::check_whole() {
  const std::uint32_t layers = analysis_.layers();
  std::vector<std::vector<LayerRange>> chains = {single_layers({0, layers})};
  if (layers > 2) chains.push_back({{0, layers / 2}, {layers / 2, layers}});
  total_ += 1;
  for (const auto& chain : chains) total_ += static_cast<std::uint32_t>(chain.size());
  return check_chain(analysis_.model(), chains);
}

/// Each form of two neighbouring layers once.
Status SelfTest::check_forms() {
  PACELINE_ASSIGN_OR_RETURN(const auto windows, windows_that_fit());
  report_.windows_checked = static_cast<std::uint32_t>(windows.size());
  report_.windows_skipped = analysis_.layers() - 1 - report_.windows_checked;
  PACELINE_ASSIGN_OR_RETURN(const auto forms, first_of_each_form(windows));
  report_.window_forms = static_cast<std::uint32_t>(forms.size());
  PACELINE_ASSIGN_OR_RETURN(const auto slices, united(forms));
  return check_slices(slices);
}

Result<SelfTestReport> SelfTest::run() {
  PACELINE_ASSIGN_OR_RETURN(report_.whole_checked, fits({0, analysis_.layers()}));
  auto checked = report_.whole_checked ? check_whole() : check_forms();
  if (checked) return report_;
  if (checked.error().code() != ErrorCode::kCancelled) {
    PACELINE_RETURN_IF_ERROR(check_windows());
  }
  return fail(std::move(checked).error());
}

}  // namespace

Result<SelfTestReport> self_test(ov::Core& core, const DecoderAnalysis& analysis,
                                 const SelfTestOptions& options) {
  return SelfTest(core, analysis, options).run();
}

}  // namespace paceline::cut
