#include "engine/stateful_engine.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include <openvino/runtime/core.hpp>

#include "cut/cut.h"
#include "cut/openvino_error.h"
#include "engine/compiled_form.h"
#include "engine/kv_slots.h"
#include "engine/stage_graph.h"
#include "engine/stage_ports.h"

namespace paceline::engine {
namespace {

/// Masked slots that are cheaper to carry along than to cut away, for so many that count.
std::size_t most_masked_slots(std::uint32_t kept) { return 64 + std::size_t{kept} / 8; }

/// Rows [first, first + count) of a batch, the sampled ones counted from `first`.
struct RowChunk {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::vector<std::int64_t> sampled_rows;
};

std::vector<RowChunk> chunks_of(const SequenceRows& rows, std::uint32_t most) {
  std::vector<RowChunk> chunks;
  for (std::uint32_t first = 0; first < rows.new_tokens; first += most) {
    RowChunk& chunk = chunks.emplace_back();
    chunk.first = first;
    chunk.count = std::min(most, rows.new_tokens - first);
    for (const std::uint32_t row : rows.sampled_rows) {
      if (row >= first && row - first < chunk.count) chunk.sampled_rows.push_back(row - first);
    }
  }
  return chunks;
}

ov::Tensor view(const ov::Shape& shape, std::vector<std::int64_t>& values) {
  return ov::Tensor(ov::element::i64, shape, values.data());
}

/// The state has its tokens on the last axis that was empty at the begin: [batch, heads, 0, size].
std::size_t token_axis(const ov::Shape& empty_state) {
  const auto last = std::find(empty_state.rbegin(), empty_state.rend(), std::size_t{0});
  return empty_state.size() - 1 - static_cast<std::size_t>(last - empty_state.rbegin());
}

std::size_t product(ov::Shape::const_iterator begin, ov::Shape::const_iterator end) {
  return std::accumulate(begin, end, std::size_t{1}, std::multiplies<>());
}

/// A copy of the slots of `runs`.
ov::Tensor cut_slots(const ov::Tensor& state, std::size_t axis, const std::vector<SlotRun>& runs) {
  const ov::Shape& shape = state.get_shape();
  const auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  const std::size_t heads = product(shape.begin(), at);
  const std::size_t slot_bytes = product(at + 1, shape.end()) * state.get_element_type().size();
  ov::Shape kept = shape;
  kept[axis] = 0;
  for (const SlotRun& run : runs) kept[axis] += run.end - run.begin;
  ov::Tensor result(state.get_element_type(), kept);
  auto* to = static_cast<std::byte*>(result.data());
  const auto* from = static_cast<const std::byte*>(state.data());
  for (std::size_t head = 0; head < heads; ++head, from += shape[axis] * slot_bytes) {
    for (const SlotRun& run : runs) {
      const std::size_t bytes = (run.end - run.begin) * slot_bytes;
      std::memcpy(to, from + run.begin * slot_bytes, bytes);
      to += bytes;
    }
  }
  return result;
}

class StatefulEngine final : public StageEngine {
 public:
  StatefulEngine(StageInfo info, CompiledForm form, Profile profile, std::uint32_t context_tokens)
      : info_(std::move(info)),
        form_(std::move(form)),
        is_exact_(profile == Profile::kExact),
        context_tokens_(context_tokens) {}

  void prepare();
  const StageInfo& info() const override { return info_; }
  Result<StageOutput> run(const StageBatch& batch) override;
  void forget(std::span<const SequenceId> freed) override;

 private:
  /// Of the sequence that is held unless it is among `freed`.
  std::optional<SequenceId> held_after(std::span<const SequenceId> freed) const;
  Status check(const StageBatch& batch) const;
  void reset();
  void rewind(std::uint32_t kept);
  void infer(const StageBatch& batch, const RowChunk& chunk);
  ov::Tensor boundary_rows(const ov::Output<const ov::Node>& input, const StageBatch& batch,
                           const RowChunk& chunk) const;
  void bind(const StageBatch& batch, RowChunk& chunk);
  void keep_output(const StageBatch& batch, const RowChunk& chunk);

  StageInfo info_;
  CompiledForm form_;
  bool is_exact_;
  std::uint32_t context_tokens_;
  ov::InferRequest request_;
  std::vector<std::size_t> token_axes_;  ///< by state
  std::optional<SequenceId> sequence_;   ///< the one that the state is of
  KvSlots slots_;
  std::vector<std::int64_t> mask_;  ///< inputs of the inference at hand
  std::vector<std::int64_t> positions_;
  std::vector<std::int64_t> tokens_;
  std::int32_t beam_ = 0;
  std::vector<std::byte> output_;  ///< of the last run
  std::vector<float> final_rows_;  ///< the same
};

/// Asks the states for their shapes, which an imported form does not tell otherwise.
void StatefulEngine::prepare() {
  request_ = form_.model.create_infer_request();
  request_.reset_state();
  for (const auto& state : request_.query_state()) {
    const ov::Shape shape = state.get_state().get_shape();
    const std::size_t axis = token_axis(shape);
    token_axes_.push_back(axis);
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
    const std::size_t width = product(at + 1, shape.end());
    // The batch is 1, and 0 as long as the state is empty.
    std::size_t heads = 1;
    for (auto size = shape.begin(); size != at; ++size) heads *= std::max<std::size_t>(1, *size);
    // Profile fast keeps u8 with a scale and a zero point in f32.
    const std::size_t row_bytes = is_exact_ ? width * sizeof(float) : width + 2 * sizeof(float);
    info_.kv_bytes += std::uint64_t{context_tokens_} * heads * row_bytes;
  }
}

std::optional<SequenceId> StatefulEngine::held_after(std::span<const SequenceId> freed) const {
  const bool is_freed =
      sequence_ && std::find(freed.begin(), freed.end(), *sequence_) != freed.end();
  return is_freed ? std::nullopt : sequence_;
}

Status StatefulEngine::check(const StageBatch& batch) const {
  if (batch.sequences.size() != 1 || !batch.copies.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "the step has rows of {} sequences and {} block copies; the stateful engine "
                "computes one sequence at a time and copies none",
                batch.sequences.size(), batch.copies.size());
  }
  const SequenceRows& rows = batch.sequences.front();
  const auto held = held_after(batch.freed);
  if (held && *held != rows.sequence) {
    return fail(ErrorCode::kFailedPrecondition,
                "sequence {} cannot begin: the stateful engine holds one at a time, now {}",
                rows.sequence.value(), held->value());
  }
  const std::uint32_t kept = held ? slots_.tokens() : 0;
  if (rows.past_tokens > kept) {
    return fail(ErrorCode::kFailedPrecondition,
                "sequence {} continues at token {}, the stateful engine holds {} of its own",
                rows.sequence.value(), rows.past_tokens, kept);
  }
  if (rows.new_tokens == 0 || rows.new_tokens > context_tokens_ - rows.past_tokens) {
    return fail(ErrorCode::kInvalidArgument, "sequence {} has {} rows after {}, expected 1 to {}",
                rows.sequence.value(), rows.new_tokens, rows.past_tokens,
                context_tokens_ - rows.past_tokens);
  }
  for (const std::uint32_t row : rows.sampled_rows) {
    if (row < rows.new_tokens) continue;
    return fail(ErrorCode::kInvalidArgument, "sequence {} samples row {} of {}",
                rows.sequence.value(), row, rows.new_tokens);
  }
  return check_sizes(info_, form_.embedding_rows, batch);
}

void StatefulEngine::reset() {
  sequence_.reset();
  slots_.clear();
  request_.reset_state();
}

void StatefulEngine::rewind(std::uint32_t kept) {
  if (kept == slots_.tokens()) return;
  if (kept == 0) {
    slots_.clear();
    request_.reset_state();
    return;
  }
  const std::size_t masked = slots_.slots() - kept;
  if (!is_exact_ && form_.rewinds_by_mask && masked <= most_masked_slots(kept)) {
    slots_.mask_from(kept);
    return;
  }
  const std::vector<SlotRun> runs = slots_.cut_to(kept);
  auto states = request_.query_state();
  for (std::size_t i = 0; i < states.size(); ++i) {
    states[i].set_state(cut_slots(states[i].get_state(), token_axes_[i], runs));
  }
}

ov::Tensor StatefulEngine::boundary_rows(const ov::Output<const ov::Node>& input,
                                         const StageBatch& batch, const RowChunk& chunk) const {
  const BoundarySpec& spec = info_.input_boundary.front();
  const auto* from = batch.boundaries.front().data() + chunk.first * spec.row_bytes();
  // The plugin only reads its inputs.
  return ov::Tensor(input.get_element_type(), {1, chunk.count, spec.row_shape.front()},
                    const_cast<std::byte*>(from));  // NOLINT
}

void StatefulEngine::bind(const StageBatch& batch, RowChunk& chunk) {
  mask_ = slots_.mask_with(chunk.count);
  positions_.clear();
  for (const auto& input : form_.model.inputs()) {
    const auto& names = input.get_names();
    if (names.contains("input_ids")) {
      const auto first = batch.tokens.begin() + chunk.first;
      tokens_.assign(first, first + chunk.count);
      request_.set_tensor(input, view({1, chunk.count}, tokens_));
    } else if (names.contains(cut::kBoundaryInput)) {
      request_.set_tensor(input, boundary_rows(input, batch, chunk));
    } else if (names.contains("attention_mask")) {
      request_.set_tensor(input, view({1, mask_.size()}, mask_));
    } else if (names.contains("position_ids")) {
      // [batch, tokens], or with an axis of 3 before them, alike for text.
      const ov::PartialShape& ports = input.get_partial_shape();
      ov::Shape shape = {1, chunk.count};
      if (ports.size() == 3) {
        shape.insert(shape.begin(), static_cast<std::size_t>(ports[0].get_length()));
      }
      for (std::size_t i = 0; i < ov::shape_size(shape); ++i) {
        positions_.push_back(static_cast<std::int64_t>(slots_.tokens() + i % chunk.count));
      }
      request_.set_tensor(input, view(shape, positions_));
    } else if (names.contains("beam_idx")) {
      request_.set_tensor(input, ov::Tensor(ov::element::i32, ov::Shape{1}, &beam_));
    } else if (names.contains(kSampledRowsInput)) {
      request_.set_tensor(input, view({chunk.sampled_rows.size()}, chunk.sampled_rows));
    }
  }
}

void StatefulEngine::keep_output(const StageBatch& batch, const RowChunk& chunk) {
  const ov::Tensor tensor = request_.get_output_tensor(0);
  const std::size_t bytes = info_.is_last
                                ? chunk.sampled_rows.size() * info_.vocabulary_size * sizeof(float)
                                : chunk.count * info_.output_boundary.front().row_bytes();
  const auto* data = static_cast<const std::byte*>(tensor.data());
  output_.insert(output_.end(), data, data + bytes);
  if (!batch.wants_final_rows) return;
  append_final_rows(request_.get_output_tensor(*final_rows_port(form_.model)), info_.final_width,
                    {}, final_rows_);
}

void StatefulEngine::infer(const StageBatch& batch, const RowChunk& chunk) {
  RowChunk bound = chunk;
  bind(batch, bound);
  request_.infer();
  slots_.append(chunk.count);
  keep_output(batch, chunk);
}

Result<StageOutput> StatefulEngine::run(const StageBatch& batch) {
  PACELINE_RETURN_IF_ERROR(check(batch));
  const SequenceRows& rows = batch.sequences.front();
  output_.clear();
  final_rows_.clear();
  const Status done = cut::catch_openvino("inference", [&] {
    if (held_after(batch.freed) != rows.sequence) reset();
    sequence_ = rows.sequence;
    rewind(rows.past_tokens);
    for (const RowChunk& chunk : chunks_of(rows, is_exact_ ? 1 : rows.new_tokens)) {
      infer(batch, chunk);
    }
  });
  if (!done) {
    // What the state holds now is not known: its sequence has to begin again.
    (void)cut::catch_openvino("reset", [&] { reset(); });
    return fail(done.error());
  }
  StageOutput output;
  if (info_.is_last) {
    output.logits = {reinterpret_cast<const float*>(output_.data()),
                     output_.size() / sizeof(float)};
    output.final_rows = final_rows_;
  } else {
    output.boundaries.emplace_back(output_);
  }
  return output;
}

void StatefulEngine::forget(std::span<const SequenceId> freed) {
  if (!sequence_ || held_after(freed)) return;
  (void)cut::catch_openvino("reset", [&] { reset(); });
}

FormOptions form_options(const StageOptions& options, const FormSource& source) {
  FormOptions form;
  form.package = options.package;
  form.package_digest = source.package_digest;
  form.layers = options.layers;
  form.profile = options.profile;
  form.threads = options.threads;
  form.stores = false;  // gigabytes, perhaps: only where somebody asked for it
  form.before_reading = source.before_reading;
  return form;
}

}  // namespace

Result<std::unique_ptr<StageEngine>> load_stateful_engine(const StageOptions& options,
                                                          const FormSource& source) {
  ov::Core core;
  PACELINE_ASSIGN_OR_RETURN(auto form,
                            load_compiled_form(core, form_options(options, source), source.cache));
  PACELINE_ASSIGN_OR_RETURN(auto info, stage_info(form.model, options.layers));
  if (info.is_last) info.tokenizer = options.package / "tokenizer.json";
  info.engine = EngineKind::kStateful;
  info.max_sequences = 1;
  info.shares_kv = false;
  info.weight_bytes = form.weight_bytes;
  info.form = form.is_imported ? "imported" : "compiled";
  info.compile_time = form.load_time;
  const std::uint64_t block_tokens =
      std::uint64_t{options.kv_blocks} * options.logical_block_tokens;
  // A whole block at least: as much as the chain's first tokens take.
  const std::uint64_t wanted = std::max(options.context_tokens, options.logical_block_tokens);
  const std::uint64_t context =
      options.context_tokens == 0 ? block_tokens : std::min(wanted, block_tokens);
  auto engine = std::make_unique<StatefulEngine>(
      std::move(info), std::move(form), options.profile,
      static_cast<std::uint32_t>(std::min<std::uint64_t>(context, INT32_MAX)));
  PACELINE_RETURN_IF_ERROR(cut::catch_openvino("preparing the states", [&] { engine->prepare(); }));
  return engine;
}

}  // namespace paceline::engine
