// Structs -> protobuf.
#include <utility>

#include "wire/header_codec.h"
#include "wire/proto_include.h"

namespace paceline::wire {
namespace {

std::uint32_t number_of(Profile profile) { return profile == Profile::kFast ? 1 : 2; }

/// Absent, which older peers write, is paged.
std::uint32_t number_of(EngineKind engine) { return engine == EngineKind::kPaged ? 0 : 2; }
std::uint32_t number_of(LinkPrecision precision) {
  return precision == LinkPrecision::kNative ? 0 : 2;
}

void put(LayerRange layers, proto::Layers& out) {
  out.set_begin(layers.begin);
  out.set_end(layers.end);
}

void put(const BoundarySpec& spec, proto::BoundarySpec& out) {
  out.set_name(spec.name);
  out.set_type(static_cast<std::uint32_t>(spec.type));
  for (const std::uint64_t dimension : spec.row_shape) out.add_row_shape(dimension);
}

void put(const StageTime& time, proto::StageTime& out) {
  out.set_stage(time.stage.value());
  out.set_queue_us(time.queue_us);
  out.set_compute_us(time.compute_us);
}

void put(const StepSequence& s, proto::StepSequence& out) {
  out.set_sequence(s.sequence.value());
  out.set_past_tokens(s.past_tokens);
  out.set_new_tokens(s.new_tokens);
  out.mutable_tokens()->Reserve(static_cast<int>(s.tokens.size()));
  for (std::size_t i = 0; i < s.tokens.size(); ++i) {
    const auto* literal = std::get_if<std::int64_t>(&s.tokens[i]);
    out.add_tokens(literal != nullptr ? static_cast<std::uint32_t>(*literal) : 0);
    if (literal != nullptr) continue;
    const auto& reference = std::get<TokenReference>(s.tokens[i]);
    proto::TokenReference& added = *out.add_references();
    added.set_index(static_cast<std::uint32_t>(i));
    added.set_step(reference.step.value());
    added.set_row(reference.row);
  }
  for (const std::uint32_t row : s.sampled_rows) out.add_sampled_rows(row);
  for (const Operation& operation : s.operations) {
    proto::Operation& added = *out.add_operations();
    if (const auto* fork = std::get_if<Fork>(&operation)) {
      added.set_fork_from(fork->from.value());
    } else if (const auto* truncate = std::get_if<Truncate>(&operation)) {
      added.set_truncate_tokens(truncate->tokens);
    } else {
      added.set_free(true);
    }
  }
  for (const auto& group : s.blocks) {
    proto::BlockList& added = *out.add_blocks();
    added.mutable_blocks()->Reserve(static_cast<int>(group.size()));
    for (const BlockId block : group) added.add_blocks(block.value());
  }
  for (const std::uint32_t token : s.drafts) out.add_drafts(token);
}

void put(const sampling::SamplingSpec& spec, proto::SequenceSpec& out) {
  out.set_temperature(spec.temperature);
  out.set_top_p(spec.top_p);
  out.set_top_k(spec.top_k);
  out.set_seed(spec.seed);
  out.set_choice(spec.choice);
  out.set_min_p(spec.min_p);
  if (spec.repetition_penalty != 1.0) out.set_repetition_penalty(spec.repetition_penalty);
  out.set_presence_penalty(spec.presence_penalty);
  out.set_frequency_penalty(spec.frequency_penalty);
  for (const sampling::LogitBias& entry : spec.logit_bias) {
    out.add_biased_tokens(entry.token);
    out.add_biases(entry.bias);
  }
  for (const std::uint32_t token : spec.stop_tokens) out.add_stop_tokens(token);
  out.set_min_tokens(spec.min_tokens);
  if (spec.logprobs) out.set_logprobs(*spec.logprobs);
  if (spec.grammar) {
    out.set_grammar_kind(static_cast<std::uint32_t>(spec.grammar->kind));
    out.set_grammar(spec.grammar->text);
  }
}

void put(const SequenceSpec& spec, proto::SequenceSpec& out) {
  out.set_sequence(spec.sequence.value());
  put(spec.sampling, out);
  out.mutable_history()->Reserve(static_cast<int>(spec.history.size()));
  for (const std::int64_t token : spec.history) out.add_history(static_cast<std::uint32_t>(token));
  out.set_want_logits_digest(spec.want_logits_digest);
  out.set_prompt_tokens(spec.prompt_tokens);
  out.set_want_mean(spec.want_mean);
}

/// One overload per message.
class Encoder {
 public:
  explicit Encoder(proto::Header& header) : header_(header) {}

  void operator()(const Hello& m) const {
    proto::Hello& out = *header_.mutable_hello();
    out.set_min_version(m.versions.min);
    out.set_max_version(m.versions.max);
    out.set_software_version(m.software_version);
    out.set_role(static_cast<std::uint32_t>(m.role));
    out.set_name(m.name);
    out.set_openvino_version(m.openvino_version);
    out.set_isa(m.isa);
  }

  void operator()(const Welcome& m) const {
    proto::Welcome& out = *header_.mutable_welcome();
    out.set_version(m.version);
    out.set_software_version(m.software_version);
    out.set_name(m.name);
    out.set_openvino_version(m.openvino_version);
    out.set_isa(m.isa);
    for (const HeldPackage& package : m.packages) {
      proto::HeldPackage& added = *out.add_packages();
      added.set_digest(package.digest);
      added.set_source(package.source);
    }
    out.set_available_bytes(m.available_bytes);
    out.set_total_bytes(m.total_bytes);
    out.set_threads(m.threads);
  }

  void operator()(const AssignStage& m) const {
    proto::AssignStage& out = *header_.mutable_assign_stage();
    out.set_package_digest(m.package_digest);
    put(m.layers, *out.mutable_layers());
    out.set_profile(number_of(m.profile));
    out.set_threads(m.threads);
    out.set_context_tokens(m.context_tokens);
    out.set_kv_blocks(m.kv_blocks);
    out.set_logical_block_tokens(m.logical_block_tokens);
    for (const RouteEntry& entry : m.route) {
      proto::RouteEntry& added = *out.add_route();
      added.set_address(entry.address);
      put(entry.layers, *added.mutable_layers());
    }
    out.set_engine(number_of(m.engine));
    out.set_link_precision(number_of(m.link_precision));
  }

  void operator()(const StageReady& m) const {
    proto::StageReady& out = *header_.mutable_stage_ready();
    put(m.layers, *out.mutable_layers());
    out.set_weight_bytes(m.weight_bytes);
    out.set_kv_bytes(m.kv_bytes);
    out.set_resident_bytes(m.resident_bytes);
    out.set_anonymous_bytes(m.anonymous_bytes);
    out.set_load_us(m.load_us);
    out.set_is_first(m.is_first);
    out.set_is_last(m.is_last);
    out.set_vocabulary_size(m.vocabulary_size);
    for (const BoundarySpec& spec : m.output_boundary) put(spec, *out.add_output_boundary());
    out.set_form(m.form);
    out.set_compile_us(m.compile_us);
    out.set_engine(number_of(m.engine));
    out.set_link_precision(number_of(m.link_precision));
    out.set_max_sequences(m.max_sequences);
    out.set_keeps_kv_apart(m.keeps_kv_apart);
    out.set_masks_grammars(m.masks_grammars);
    out.set_mean_width(m.mean_width);
  }

  void operator()(const LinkStage& m) const {
    proto::LinkStage& out = *header_.mutable_link_stage();
    out.set_package_digest(m.package_digest);
    put(m.upstream_layers, *out.mutable_upstream_layers());
    put(m.downstream_layers, *out.mutable_downstream_layers());
    out.set_profile(number_of(m.profile));
    out.set_isa(m.isa);
    out.set_openvino_version(m.openvino_version);
    out.set_logical_block_tokens(m.logical_block_tokens);
    for (const BoundarySpec& spec : m.boundary) put(spec, *out.add_boundary());
    out.set_engine(number_of(m.engine));
    out.set_link_precision(number_of(m.link_precision));
  }

  void operator()(const Step& m) const {
    proto::Step& out = *header_.mutable_step();
    for (const StepSequence& sequence : m.sequences) put(sequence, *out.add_sequences());
    for (const SequenceSpec& spec : m.opened) put(spec, *out.add_opened());
    for (const BlockCopy& copy : m.copies) {
      proto::BlockCopy& added = *out.add_copies();
      added.set_group(copy.group);
      added.set_from(copy.from.value());
      added.set_to(copy.to.value());
    }
    for (const StageTime& time : m.stage_times) put(time, *out.add_stage_times());
    out.set_sampled_apart(m.sampled_apart);
  }

  void operator()(const StepSampling& m) const {
    proto::StepSampling& out = *header_.mutable_step_sampling();
    for (const SequenceSampling& s : m.sequences) {
      proto::SequenceSampling& added = *out.add_sequences();
      added.set_sequence(s.sequence.value());
      for (const std::uint32_t row : s.sampled_rows) added.add_sampled_rows(row);
      for (const std::uint32_t token : s.drafts) added.add_drafts(token);
    }
    for (const SequenceSpec& spec : m.opened) put(spec, *out.add_opened());
  }

  void operator()(const StepResult& m) const {
    proto::StepResult& out = *header_.mutable_step_result();
    out.set_outcome(static_cast<std::uint32_t>(m.outcome));
    for (const Sample& sample : m.samples) {
      proto::Sample& added = *out.add_samples();
      added.set_sequence(sample.sequence.value());
      added.set_row(sample.row);
      added.set_token(static_cast<std::uint32_t>(sample.token));
      added.set_logprob(sample.logprob);
      added.set_logits_digest(sample.logits_digest);
      for (const TokenLogprob& entry : sample.top) {
        added.add_top_tokens(static_cast<std::uint32_t>(entry.token));
        added.add_top_logprobs(entry.logprob);
      }
      added.set_failure(sample.failure);
      added.mutable_mean()->Assign(sample.mean.begin(), sample.mean.end());
    }
    for (const StageTime& time : m.stage_times) put(time, *out.add_stage_times());
    out.set_error_code(static_cast<std::uint32_t>(m.error_code));
    out.set_error_message(m.error_message);
  }

  void operator()(const Ping& m) const {
    header_.mutable_ping()->set_nonce(m.nonce);
    header_.mutable_ping()->set_sent_us(m.sent_us);
  }

  void operator()(const Pong& m) const {
    header_.mutable_pong()->set_nonce(m.nonce);
    header_.mutable_pong()->set_busy_us(m.busy_us);
    header_.mutable_pong()->set_queued_steps(m.queued_steps);
    header_.mutable_pong()->set_resident_bytes(m.resident_bytes);
    header_.mutable_pong()->set_anonymous_bytes(m.anonymous_bytes);
  }

  void operator()(const Fault& m) const {
    header_.mutable_fault()->set_code(static_cast<std::uint32_t>(m.code));
    header_.mutable_fault()->set_message(m.message);
    header_.mutable_fault()->set_regarding(static_cast<std::uint32_t>(m.regarding));
  }

  void operator()(const ReadPiece& m) const {
    proto::ReadPiece& out = *header_.mutable_read_piece();
    out.set_package_digest(m.package_digest);
    out.set_file(m.file);
    out.set_offset(m.offset);
    out.set_bytes(m.bytes);
  }

  void operator()(const Piece& m) const {
    header_.mutable_piece()->set_offset(m.offset);
    header_.mutable_piece()->set_file_bytes(m.file_bytes);
  }

  void operator()(const LinkAccepted&) const { header_.mutable_link_accepted(); }
  void operator()(const ReleaseChain&) const { header_.mutable_release_chain(); }
  void operator()(const Goodbye& m) const { header_.mutable_goodbye()->set_reason(m.reason); }

 private:
  proto::Header& header_;
};

}  // namespace

Result<std::vector<std::byte>> encode_header(const Message& message,
                                             std::span<const TensorDescription> tensors) {
  proto::Header header;
  for (const TensorDescription& tensor : tensors) {
    proto::TensorDescription& added = *header.add_tensors();
    added.set_name(tensor.name);
    added.set_type(static_cast<std::uint32_t>(tensor.type));
    for (const std::uint64_t dimension : tensor.shape) added.add_shape(dimension);
    added.set_bytes(tensor.bytes);
  }
  std::visit(Encoder(header), message);
  std::vector<std::byte> bytes(header.ByteSizeLong());
  if (!header.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return fail(ErrorCode::kInternal, "{}: the header does not serialize",
                to_string(kind_of(message)));
  }
  return bytes;
}

}  // namespace paceline::wire
