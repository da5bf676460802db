#include "cut/self_test.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cut/stateful_run.h"

namespace paceline::cut {
namespace {

constexpr std::uint32_t kSeed = 20240229;

/// What a stage takes: the plugin packs the weights into memory of its own, f16 and bf16 as f32
/// (2.1 times covers that), besides the mapped pages.
std::uint64_t compiled_bytes(std::uint64_t constant_bytes) {
  return constant_bytes + constant_bytes / 10 * 11;
}

class SelfTest {
 public:
  SelfTest(ov::Core& core, const DecoderAnalysis& analysis, const SelfTestOptions& options)
      : core_(core), analysis_(analysis), options_(options) {}
  Result<SelfTestReport> run();

 private:
  Result<std::shared_ptr<ov::Model>> stage(LayerRange range) const;
  Result<bool> fits(LayerRange range) const;
  Result<std::vector<ov::Tensor>> run_model(const std::shared_ptr<const ov::Model>& model,
                                            const std::vector<ov::Tensor>& data);
  Status check_window(LayerRange window);
  Status check_whole();
  Status check_windows();
  Status check_chain(const std::shared_ptr<const ov::Model>& uncut,
                     const std::vector<std::vector<LayerRange>>& chains);

  ov::Core& core_;
  const DecoderAnalysis& analysis_;
  const SelfTestOptions& options_;
  /// A prefill, a chunk, and single tokens, which take other kernels.
  const BatchSchedule batch_ = {{3, 0}, {24, 1, 3, 1}};
  SelfTestReport report_;
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

Result<std::vector<ov::Tensor>> SelfTest::run_model(const std::shared_ptr<const ov::Model>& model,
                                                    const std::vector<ov::Tensor>& data) {
  if (options_.progress && !options_.progress(done_, total_)) {
    return fail(ErrorCode::kCancelled, "self-test: cancelled after {} of {} models", done_, total_);
  }
  done_ = std::min(done_ + 1, total_);
  auto outputs = run_stateful(core_, model, exact_properties(options_.threads), batch_, data);
  if (options_.after_model) options_.after_model();
  return outputs;
}

Status SelfTest::check_chain(const std::shared_ptr<const ov::Model>& uncut,
                             const std::vector<std::vector<LayerRange>>& chains) {
  PACELINE_ASSIGN_OR_RETURN(const auto data,
                            random_data(*uncut, batch_, analysis_.vocabulary_size(), kSeed));
  PACELINE_ASSIGN_OR_RETURN(const auto expected, run_model(uncut, data));
  for (const auto& chain : chains) {
    std::vector<ov::Tensor> tensors = data;
    for (const LayerRange range : chain) {
      PACELINE_ASSIGN_OR_RETURN(const auto model, stage(range));
      PACELINE_ASSIGN_OR_RETURN(tensors, run_model(model, tensors));
    }
    PACELINE_ASSIGN_OR_RETURN(const double difference,
                              largest_difference(batch_, expected, tensors));
    if (difference > 0.0) {
      return fail(ErrorCode::kInternal,
                  "self-test: layers {}..{} in {} stages differ from the uncut graph by {}",
                  chain.front().begin, chain.back().end, chain.size(), difference);
    }
  }
  return {};
}

Status SelfTest::check_window(LayerRange window) {
  PACELINE_ASSIGN_OR_RETURN(const bool fit, fits(window));
  if (!fit) {
    ++report_.windows_skipped;
    return {};
  }
  PACELINE_ASSIGN_OR_RETURN(const auto uncut, analysis_.cut(window));
  PACELINE_RETURN_IF_ERROR(
      check_chain(uncut, {{{window.begin, window.begin + 1}, {window.begin + 1, window.end}}}));
  ++report_.windows_checked;
  return {};
}

Status SelfTest::check_windows() {
  total_ += 3 * (analysis_.layers() - 1);
  for (std::uint32_t layer = 0; layer + 1 < analysis_.layers(); ++layer) {
    PACELINE_RETURN_IF_ERROR(check_window({layer, layer + 2}));
  }
  return {};
}

Status SelfTest::check_whole() {
  const std::uint32_t layers = analysis_.layers();
  std::vector<LayerRange> singles;
  for (std::uint32_t layer = 0; layer < layers; ++layer) singles.push_back({layer, layer + 1});
  std::vector<std::vector<LayerRange>> chains = {std::move(singles)};
  if (layers > 2) chains.push_back({{0, layers / 2}, {layers / 2, layers}});
  total_ += 1;
  for (const auto& chain : chains) total_ += static_cast<std::uint32_t>(chain.size());
  return check_chain(analysis_.model(), chains);
}

Result<SelfTestReport> SelfTest::run() {
  PACELINE_ASSIGN_OR_RETURN(report_.whole_checked, fits({0, analysis_.layers()}));
  if (!report_.whole_checked) {
    PACELINE_RETURN_IF_ERROR(check_windows());
    return report_;
  }
  if (auto whole = check_whole(); !whole) {
    if (whole.error().code() == ErrorCode::kCancelled) return fail(std::move(whole).error());
    PACELINE_RETURN_IF_ERROR(check_windows());
    return fail(std::move(whole).error());
  }
  return report_;
}

}  // namespace

Result<SelfTestReport> self_test(ov::Core& core, const DecoderAnalysis& analysis,
                                 const SelfTestOptions& options) {
  return SelfTest(core, analysis, options).run();
}

}  // namespace paceline::cut
