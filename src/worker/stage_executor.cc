#include "worker/stage_executor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "wire/int8_rows.h"
#include "wire/limits.h"
#include "wire/text.h"
#include "worker/row_sampler.h"

namespace paceline::worker {
namespace {

/// More steps than any chain has in flight.
constexpr std::size_t kRememberedSteps = 64;

engine::SequenceRows rows_of(const wire::StepSequence& sequence) {
  engine::SequenceRows rows;
  rows.sequence = sequence.sequence;
  rows.past_tokens = sequence.past_tokens;
  rows.new_tokens = sequence.new_tokens;
  if (!sequence.blocks.empty()) rows.blocks = sequence.blocks.front();
  rows.sampled_rows = sequence.sampled_rows;
  return rows;
}

/// The boundary tensors in the order of `specs`.
Result<std::vector<std::span<const std::byte>>> match_boundaries(
    std::span<const engine::BoundarySpec> specs, std::span<const wire::Tensor> tensors) {
  std::vector<std::span<const std::byte>> matched;
  for (const engine::BoundarySpec& spec : specs) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const auto& tensor) { return tensor.name == spec.name; });
    if (found == tensors.end()) {
      return fail(ErrorCode::kInvalidArgument, "the step has no boundary tensor {}", spec.name);
    }
    if (found->type != spec.type) {
      return fail(ErrorCode::kInvalidArgument, "boundary tensor {} is of type {}, {} is expected",
                  spec.name, to_string(found->type), to_string(spec.type));
    }
    if (!std::equal(found->shape.begin() + 1, found->shape.end(), spec.row_shape.begin(),
                    spec.row_shape.end())) {
      return fail(ErrorCode::kInvalidArgument,
                  "boundary tensor {} has rows of shape [{}], [{}] is expected", spec.name,
                  fmt::join(found->shape.begin() + 1, found->shape.end(), ", "),
                  fmt::join(spec.row_shape, ", "));
    }
    matched.push_back(found->data.bytes());
  }
  if (tensors.size() != specs.size()) {
    return fail(ErrorCode::kInvalidArgument, "the step has {} boundary tensors, {} are expected",
                tensors.size(), specs.size());
  }
  return matched;
}

}  // namespace

StageExecutor::StageExecutor(std::unique_ptr<engine::StageEngine> engine,
                             LinkPrecision link_precision)
    : engine_(std::move(engine)),
      link_precision_(link_precision),
      grammars_(engine_->info().tokenizer) {}

/// As the engine takes them; those that it does not know stay as they are, to be refused.
Result<std::vector<wire::Tensor>> StageExecutor::native_of(
    std::span<const wire::Tensor> tensors) const {
  std::vector<wire::Tensor> native(tensors.begin(), tensors.end());
  if (link_precision_ == LinkPrecision::kNative) return native;
  for (const engine::BoundarySpec& spec : info().input_boundary) {
    const auto found = std::find_if(native.begin(), native.end(),
                                    [&](const auto& tensor) { return tensor.name == spec.name; });
    if (found == native.end()) continue;
    PACELINE_ASSIGN_OR_RETURN(*found,
                              wire::from_int8(*found, {spec.name, spec.type, spec.row_shape}));
  }
  return native;
}

Result<std::vector<wire::Tensor>> StageExecutor::boundary_tensors(const engine::StageOutput& output,
                                                                  std::uint64_t rows) const {
  std::vector<wire::Tensor> tensors;
  for (std::size_t index = 0; index < output.boundaries.size(); ++index) {
    const engine::BoundarySpec& spec = info().output_boundary[index];
    const auto bytes = output.boundaries[index];
    wire::Tensor tensor = {spec.name, spec.type, {rows}, {}};
    tensor.shape.insert(tensor.shape.end(), spec.row_shape.begin(), spec.row_shape.end());
    if (link_precision_ == LinkPrecision::kInt8) {
      tensor.data = wire::SharedBytes({}, bytes);  // for as long as it takes to code it
      PACELINE_ASSIGN_OR_RETURN(tensor, wire::to_int8(tensor));
    } else {
      tensor.data = wire::SharedBytes::copy_of(bytes);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<SampledSequence> StageExecutor::sampled_sequence(const wire::SequenceSpec& spec) {
  SampledSequence sampled;
  sampled.wants_digest = spec.want_logits_digest;
  if (!info().is_last) return sampled;
  const std::vector<std::uint32_t> history(spec.history.begin(), spec.history.end());
  auto sampler = sampling::SequenceSampler::create(spec.sampling, spec.prompt_tokens, history,
                                                   info().vocabulary_size);
  if (!sampler) {
    return fail(sampler.error().with_context(fmt::format("sequence {}", spec.sequence.value())));
  }
  sampled.sampler = std::make_shared<sampling::SequenceSampler>(*std::move(sampler));
  if (spec.want_mean) {
    if (info().final_width == 0 || spec.prompt_tokens == 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "sequence {} wants the mean of {} rows of {} values, expected 1 or more",
                  spec.sequence.value(), spec.prompt_tokens, info().final_width);
    }
    sampled.sum = std::make_shared<const RowSum>(spec.prompt_tokens);
  }
  if (!spec.sampling.grammar) return sampled;
  auto grammar = grammars_.find(*spec.sampling.grammar);
  if (grammar) {
    sampled.grammar = std::make_shared<AnswerGrammar>(*std::move(grammar), info().vocabulary_size,
                                                      spec.sampling.stop_tokens);
  } else {  // the fault of one request; the others of the step go on
    sampled.failure = wire::clean_text(grammar.error().message(), kMaxFailureBytes);
  }
  return sampled;
}

Status StageExecutor::open_sequences(const wire::Step& step, Sequences& sequences) {
  for (const wire::SequenceSpec& spec : step.opened) {
    Sequence opened;
    opened.begins = true;
    PACELINE_ASSIGN_OR_RETURN(opened.sampled, sampled_sequence(spec));
    if (!sequences.emplace(spec.sequence, std::move(opened)).second) {
      return fail(ErrorCode::kFailedPrecondition, "sequence {} is open already",
                  spec.sequence.value());
    }
  }
  if (sequences.size() > kMaxOpenSequences) {
    return fail(ErrorCode::kResourceExhausted, "{} sequences would be open, at most {} can be",
                sequences.size(), kMaxOpenSequences);
  }
  const auto sums = static_cast<std::size_t>(
      std::count_if(sequences.begin(), sequences.end(),
                    [](const auto& entry) { return entry.second.sampled.sum != nullptr; }));
  if (sums > kMaxSums) {
    return fail(ErrorCode::kResourceExhausted, "{} prompts would be summed, at most {} can be",
                sums, kMaxSums);
  }
  return {};
}

/// The operations of one sequence, in order; a Free is the last.
Status StageExecutor::apply(const wire::StepSequence& entry, Sequences& sequences) {
  const auto id = entry.sequence.value();
  const auto found = sequences.find(entry.sequence);
  if (found == sequences.end()) {
    const bool is_only_freed =
        entry.new_tokens == 0 && entry.operations == std::vector<wire::Operation>{wire::Free()};
    if (is_only_freed) return {};
    return fail(ErrorCode::kFailedPrecondition, "sequence {} was not opened", id);
  }
  if (found->second.begins) found->second.tokens = entry.past_tokens;
  bool is_freed = false;
  for (const wire::Operation& operation : entry.operations) {
    if (is_freed) {
      return fail(ErrorCode::kInvalidArgument, "sequence {} has operations after it is freed", id);
    }
    if (const auto* fork = std::get_if<wire::Fork>(&operation)) {
      const auto parent = sequences.find(fork->from);
      if (parent == sequences.end()) {
        return fail(ErrorCode::kFailedPrecondition, "sequence {} forks from {}, which is not open",
                    id, fork->from.value());
      }
      found->second.tokens = parent->second.tokens;
      found->second.sampled.fork_from(parent->second.sampled);
    } else if (const auto* truncate = std::get_if<wire::Truncate>(&operation)) {
      found->second.tokens = std::min(found->second.tokens, truncate->tokens);
      found->second.sampled.truncate(truncate->tokens);
    } else {
      is_freed = true;
    }
  }
  if (is_freed && entry.new_tokens > 0) {
    return fail(ErrorCode::kInvalidArgument, "sequence {} is freed in a step that has its rows",
                id);
  }
  if (is_freed) sequences.erase(found);
  return {};
}

Result<StageExecutor::Sequences> StageExecutor::apply_operations(const wire::Step& step) {
  Sequences sequences = sequences_;
  PACELINE_RETURN_IF_ERROR(open_sequences(step, sequences));
  for (const wire::StepSequence& entry : step.sequences) {
    PACELINE_RETURN_IF_ERROR(apply(entry, sequences));
  }
  return sequences;
}

Status StageExecutor::append_tokens(const wire::StepSequence& sequence,
                                    engine::StageBatch& batch) const {
  for (const wire::TokenRef& token : sequence.tokens) {
    if (const auto* literal = std::get_if<std::int64_t>(&token)) {
      batch.tokens.push_back(*literal);
      continue;
    }
    const auto& reference = std::get<wire::TokenReference>(token);
    const auto step = std::find_if(recent_.begin(), recent_.end(), [&](const auto& entry) {
      return entry.first == reference.step;
    });
    if (step == recent_.end()) {
      return fail(ErrorCode::kUnimplemented,
                  "sequence {} refers to step {}, whose result is not known to this stage",
                  sequence.sequence.value(), reference.step.value());
    }
    const auto sample = std::find_if(step->second.begin(), step->second.end(),
                                     [&](const auto& s) { return s.row == reference.row; });
    if (sample == step->second.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  "sequence {} refers to row {} of step {}, not sampled", sequence.sequence.value(),
                  reference.row, reference.step.value());
    }
    batch.tokens.push_back(sample->token);
  }
  return {};
}

Result<engine::StageBatch> StageExecutor::make_batch(const wire::Step& step,
                                                     const Sequences& sequences,
                                                     std::span<const wire::Tensor> tensors) const {
  engine::StageBatch batch;
  for (const wire::BlockCopy& copy : step.copies) {
    if (copy.group != 0) {
      return fail(ErrorCode::kUnimplemented, "a block copy is for KV group {}, this stage has 1",
                  copy.group);
    }
    batch.copies.push_back({copy.from, copy.to});
  }
  for (const wire::StepSequence& entry : step.sequences) {
    if (!sequences.contains(entry.sequence)) batch.freed.push_back(entry.sequence);
    if (entry.new_tokens == 0) continue;
    const Sequence& sequence = sequences.at(entry.sequence);
    if (entry.past_tokens != sequence.tokens) {
      return fail(ErrorCode::kFailedPrecondition,
                  "sequence {} continues at token {}, this stage holds {}", entry.sequence.value(),
                  entry.past_tokens, sequence.tokens);
    }
    if (entry.blocks.size() != 1) {
      return fail(ErrorCode::kUnimplemented, "sequence {} has {} KV groups, this stage has 1",
                  entry.sequence.value(), entry.blocks.size());
    }
    batch.sequences.push_back(rows_of(entry));
    if (info().is_first) PACELINE_RETURN_IF_ERROR(append_tokens(entry, batch));
  }
  if (batch.sequences.empty() && !batch.copies.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the step copies blocks and has no rows");
  }
  if (!info().is_first && !batch.sequences.empty()) {
    PACELINE_ASSIGN_OR_RETURN(batch.boundaries, match_boundaries(info().input_boundary, tensors));
  }
  return batch;
}

/// Whether rows of the step are to be summed.
Result<bool> StageExecutor::check_sums(const wire::Step& step, const Sequences& sequences) const {
  bool has_sums = false;
  std::uint64_t values = 0;
  for (const wire::StepSequence& entry : step.sequences) {
    if (entry.new_tokens == 0) continue;
    const auto& sum = sequences.at(entry.sequence).sampled.sum;
    if (sum == nullptr) continue;
    PACELINE_RETURN_IF_ERROR(sum->check(entry));
    has_sums = true;
    if (sum->ends_with(entry.new_tokens)) values += info().final_width;
  }
  const std::uint64_t most = wire::Limits().mean_values;
  if (values <= most) return has_sums;
  return fail(ErrorCode::kResourceExhausted, "the step gives means of {} values, at most {}",
              values, most);
}

/// The mean of a prompt comes with the sample behind it.
void StageExecutor::sum_rows(const wire::Step& step, Sequences& sequences,
                             std::span<const float> final_rows,
                             std::vector<wire::Sample>& samples) const {
  const std::size_t width = info().final_width;
  std::uint32_t first = 0;
  for (const wire::StepSequence& entry : step.sequences) {
    if (entry.new_tokens == 0) continue;
    auto& sum = sequences.at(entry.sequence).sampled.sum;
    const std::uint32_t begin = std::exchange(first, first + entry.new_tokens);
    if (sum == nullptr) continue;
    const auto rows = final_rows.subspan(begin * width, entry.new_tokens * width);
    auto more = std::make_shared<const RowSum>(sum->plus(rows, width));
    if (!sum->ends_with(entry.new_tokens)) {
      sum = std::move(more);
      continue;
    }
    const std::uint32_t last = begin + sum->last_row();
    const auto sample = std::find_if(samples.begin(), samples.end(),
                                     [last](const auto& sampled) { return sampled.row == last; });
    if (sample != samples.end()) sample->mean = more->mean();
    sum = nullptr;
  }
}

Result<std::vector<wire::Sample>> StageExecutor::sample_rows(const wire::Step& step,
                                                             Sequences& sequences,
                                                             std::span<const float> logits) {
  RowSampler rows(logits, info().vocabulary_size, workspace_);
  for (const wire::StepSequence& entry : step.sequences) {
    // A sequence that this step frees has no rows.
    const auto sequence = sequences.find(entry.sequence);
    if (sequence == sequences.end()) continue;
    if (auto status = rows.add(entry, sequence->second.sampled); !status) {
      rows.undo();
      return fail(std::move(status).error());
    }
  }
  return rows.take_samples();
}

void StageExecutor::forget_failed_grammars(const std::vector<wire::Sample>& samples,
                                           const Sequences& sequences) {
  for (const wire::Sample& sample : samples) {
    if (sample.failure.empty()) continue;
    const auto& sampler = sequences.at(sample.sequence).sampled.sampler;
    if (sampler->spec().grammar) grammars_.forget(*sampler->spec().grammar);
  }
}

void StageExecutor::remember(StepId id, const std::vector<wire::Sample>& samples) {
  auto& kept = recent_.emplace_back(id, samples).second;
  for (wire::Sample& sample : kept) sample.mean = std::vector<float>();  // some KiB each
  if (recent_.size() > kRememberedSteps) recent_.pop_front();
}

Result<StepProduct> StageExecutor::execute(StepId id, const wire::Step& step,
                                           std::span<const wire::Tensor> tensors) {
  PACELINE_ASSIGN_OR_RETURN(Sequences sequences, apply_operations(step));
  PACELINE_ASSIGN_OR_RETURN(const auto native, native_of(tensors));
  PACELINE_ASSIGN_OR_RETURN(auto batch, make_batch(step, sequences, native));
  PACELINE_ASSIGN_OR_RETURN(batch.wants_final_rows, check_sums(step, sequences));
  StepProduct product;
  if (!batch.sequences.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const auto output, engine_->run(batch));
    if (info().is_last) {
      PACELINE_ASSIGN_OR_RETURN(product.samples, sample_rows(step, sequences, output.logits));
      forget_failed_grammars(product.samples, sequences);
      if (batch.wants_final_rows) {
        sum_rows(step, sequences, output.final_rows, product.samples);
      }
    } else {
      PACELINE_ASSIGN_OR_RETURN(product.boundaries, boundary_tensors(output, batch.rows()));
    }
  } else if (!batch.freed.empty()) {
    engine_->forget(batch.freed);
  }
  for (const wire::StepSequence& entry : step.sequences) {
    const auto sequence = sequences.find(entry.sequence);
    if (sequence == sequences.end() || entry.new_tokens == 0) continue;
    sequence->second.tokens = entry.past_tokens + entry.new_tokens;
  }
  for (const wire::SequenceSpec& spec : step.opened) {
    if (const auto opened = sequences.find(spec.sequence); opened != sequences.end()) {
      opened->second.begins = false;
    }
  }
  sequences_ = std::move(sequences);
  remember(id, product.samples);
  return product;
}

}  // namespace paceline::worker
