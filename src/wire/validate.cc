#include "wire/validate.h"

#include <cstddef>
#include <string_view>
#include <unordered_set>

#include "base/checked_math.h"
#include "wire/step_checks.h"
#include "wire/text.h"

namespace paceline::wire {
namespace {

Status check_text(std::string_view what, std::string_view text, std::uint32_t most) {
  PACELINE_RETURN_IF_ERROR(check_count(what, text.size(), most));
  if (is_valid_text(text)) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: expected UTF-8 without control characters", what);
}

Status check_layers(std::string_view what, LayerRange layers) {
  if (layers.begin <= layers.end) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: begin {} is above end {}", what, layers.begin,
              layers.end);
}

/// One overload per message; `check(tensors)` first.
class Validator {
 public:
  Validator(const Address& address, std::span<const TensorDescription> tensors,
            const Limits& limits)
      : address_(address), tensors_(tensors), limits_(limits) {}

  Status check_tensors() const {
    PACELINE_RETURN_IF_ERROR(check_count("tensors", tensors_.size(), limits_.tensors));
    std::uint64_t total = 0;
    for (const TensorDescription& tensor : tensors_) {
      PACELINE_RETURN_IF_ERROR(check_name("tensor.name", tensor.name));
      PACELINE_RETURN_IF_ERROR(check_rank("tensor.shape", tensor.shape.size()));
      const auto elements = checked_product(tensor.shape);
      const auto bytes =
          elements ? checked_multiply(*elements, size_bytes(tensor.type)) : std::nullopt;
      if (!bytes || *bytes != tensor.bytes) {
        return fail(ErrorCode::kInvalidArgument,
                    "tensor '{}': {} bytes do not fit its shape and type {}", tensor.name,
                    tensor.bytes, to_string(tensor.type));
      }
      const auto sum = checked_add(total, *bytes);
      PACELINE_RETURN_IF_ERROR(
          check_count("payload bytes", sum.value_or(UINT64_MAX), limits_.payload_bytes));
      total = *sum;
    }
    return {};
  }

  Status operator()(const Hello& m) const {
    PACELINE_RETURN_IF_ERROR(check_string("hello.software_version", m.software_version));
    PACELINE_RETURN_IF_ERROR(check_string("hello.name", m.name));
    PACELINE_RETURN_IF_ERROR(check_string("hello.openvino_version", m.openvino_version));
    return check_string("hello.isa", m.isa);
  }

  Status operator()(const Welcome& m) const {
    PACELINE_RETURN_IF_ERROR(check_string("welcome.software_version", m.software_version));
    PACELINE_RETURN_IF_ERROR(check_string("welcome.name", m.name));
    PACELINE_RETURN_IF_ERROR(check_string("welcome.openvino_version", m.openvino_version));
    PACELINE_RETURN_IF_ERROR(check_string("welcome.isa", m.isa));
    PACELINE_RETURN_IF_ERROR(check_count("welcome.packages", m.packages.size(), limits_.packages));
    for (const HeldPackage& package : m.packages) {
      PACELINE_RETURN_IF_ERROR(check_string("welcome.packages.digest", package.digest));
      PACELINE_RETURN_IF_ERROR(check_string("welcome.packages.source", package.source));
    }
    return {};
  }

  Status operator()(const AssignStage& m) const {
    PACELINE_RETURN_IF_ERROR(check_name("assign_stage.package_digest", m.package_digest));
    PACELINE_RETURN_IF_ERROR(check_layers("assign_stage.layers", m.layers));
    PACELINE_RETURN_IF_ERROR(check_count("assign_stage.route", m.route.size(), limits_.route));
    for (const RouteEntry& entry : m.route) {
      PACELINE_RETURN_IF_ERROR(check_string("assign_stage.route.address", entry.address));
      PACELINE_RETURN_IF_ERROR(check_layers("assign_stage.route.layers", entry.layers));
    }
    const std::uint32_t stage = address_.stage.value();
    if (stage >= m.route.size()) {
      return fail(ErrorCode::kInvalidArgument, "assign_stage.route: {} entries, none for stage {}",
                  m.route.size(), stage);
    }
    if (m.route[stage].layers != m.layers) {
      return fail(ErrorCode::kInvalidArgument,
                  "assign_stage.layers: [{}, {}), but the route says [{}, {})", m.layers.begin,
                  m.layers.end, m.route[stage].layers.begin, m.route[stage].layers.end);
    }
    if (m.logical_block_tokens == 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "assign_stage.logical_block_tokens: expected 1 or more");
    }
    return {};
  }

  Status operator()(const StageReady& m) const {
    PACELINE_RETURN_IF_ERROR(check_layers("stage_ready.layers", m.layers));
    PACELINE_RETURN_IF_ERROR(check_string("stage_ready.form", m.form));
    return check_boundary("stage_ready.output_boundary", m.output_boundary);
  }

  Status operator()(const LinkStage& m) const {
    PACELINE_RETURN_IF_ERROR(check_name("link_stage.package_digest", m.package_digest));
    PACELINE_RETURN_IF_ERROR(check_layers("link_stage.upstream_layers", m.upstream_layers));
    PACELINE_RETURN_IF_ERROR(check_layers("link_stage.downstream_layers", m.downstream_layers));
    PACELINE_RETURN_IF_ERROR(check_string("link_stage.isa", m.isa));
    PACELINE_RETURN_IF_ERROR(check_string("link_stage.openvino_version", m.openvino_version));
    return check_boundary("link_stage.boundary", m.boundary);
  }

  Status operator()(const Step& m) const {
    PACELINE_RETURN_IF_ERROR(check_count("step.sequences", m.sequences.size(), limits_.sequences));
    PACELINE_RETURN_IF_ERROR(check_count("step.opened", m.opened.size(), limits_.sequences));
    PACELINE_RETURN_IF_ERROR(check_count("step.copies", m.copies.size(), limits_.block_copies));
    PACELINE_RETURN_IF_ERROR(check_count("step.stage_times", m.stage_times.size(), limits_.route));
    std::uint64_t rows = 0;
    std::uint64_t blocks = 0;
    std::unordered_set<std::uint64_t> seen;
    for (const StepSequence& sequence : m.sequences) {
      if (!seen.insert(sequence.sequence.value()).second) {
        return fail(ErrorCode::kInvalidArgument, "step.sequences: sequence {} stands in it twice",
                    sequence.sequence.value());
      }
      PACELINE_RETURN_IF_ERROR(check_sequence(sequence));
      rows += sequence.new_tokens;
      for (const auto& group : sequence.blocks) blocks += group.size();
    }
    PACELINE_RETURN_IF_ERROR(check_count("step: rows", rows, limits_.step_tokens));
    PACELINE_RETURN_IF_ERROR(check_count("step: blocks", blocks, limits_.step_blocks));
    PACELINE_RETURN_IF_ERROR(check_opened(m.opened, limits_));
    if (m.sampled_apart) PACELINE_RETURN_IF_ERROR(check_nothing_sampled(m));
    return check_rows(rows);
  }

  Status operator()(const StepResult& m) const {
    PACELINE_RETURN_IF_ERROR(
        check_count("step_result.samples", m.samples.size(), limits_.step_tokens));
    std::uint64_t means = 0;
    for (const Sample& sample : m.samples) {
      PACELINE_RETURN_IF_ERROR(check_token("step_result.samples", sample.token));
      PACELINE_RETURN_IF_ERROR(
          check_count("step_result.samples.top", sample.top.size(), limits_.top_logprobs));
      for (const TokenLogprob& entry : sample.top) {
        PACELINE_RETURN_IF_ERROR(check_token("step_result.samples.top", entry.token));
      }
      PACELINE_RETURN_IF_ERROR(
          check_text("step_result.samples.failure", sample.failure, limits_.message_bytes));
      means += sample.mean.size();
    }
    PACELINE_RETURN_IF_ERROR(
        check_count("step_result.samples.mean: values", means, limits_.mean_values));
    PACELINE_RETURN_IF_ERROR(
        check_count("step_result.stage_times", m.stage_times.size(), limits_.route));
    return check_text("step_result.error_message", m.error_message, limits_.message_bytes);
  }

  Status operator()(const Fault& m) const {
    return check_text("fault.message", m.message, limits_.message_bytes);
  }
  Status operator()(const Goodbye& m) const {
    return check_text("goodbye.reason", m.reason, limits_.message_bytes);
  }
  Status operator()(const ReadPiece& m) const {
    PACELINE_RETURN_IF_ERROR(check_name("read_piece.package_digest", m.package_digest));
    PACELINE_RETURN_IF_ERROR(check_name("read_piece.file", m.file));
    PACELINE_RETURN_IF_ERROR(check_count("read_piece.offset", m.offset, limits_.file_bytes));
    if (m.bytes >= 1 && m.bytes <= limits_.piece_bytes) return {};
    return fail(ErrorCode::kInvalidArgument, "read_piece.bytes: {}, expected 1 to {}", m.bytes,
                limits_.piece_bytes);
  }
  Status operator()(const Piece& m) const {
    PACELINE_RETURN_IF_ERROR(check_count("piece.file_bytes", m.file_bytes, limits_.file_bytes));
    if (tensors_.size() != 1 || tensors_[0].name != kPieceTensor ||
        tensors_[0].type != ElementType::kU8 || tensors_[0].shape.size() != 1) {
      return fail(ErrorCode::kInvalidArgument, "piece: expected one tensor '{}' of u8 and rank 1",
                  kPieceTensor);
    }
    const std::uint64_t bytes = tensors_[0].bytes;
    if (bytes < 1 || bytes > limits_.piece_bytes) {
      return fail(ErrorCode::kInvalidArgument, "piece: {} bytes, expected 1 to {}", bytes,
                  limits_.piece_bytes);
    }
    if (m.offset <= m.file_bytes && bytes <= m.file_bytes - m.offset) return {};
    return fail(ErrorCode::kInvalidArgument, "piece: {} bytes at {} of a file of {}", bytes,
                m.offset, m.file_bytes);
  }
  Status operator()(const StepSampling& m) const { return check_step_sampling(m, limits_); }
  Status operator()(const LinkAccepted&) const { return {}; }
  Status operator()(const Ping&) const { return {}; }
  Status operator()(const Pong&) const { return {}; }
  Status operator()(const ReleaseChain&) const { return {}; }

 private:
  Status check_string(std::string_view what, std::string_view text) const {
    return check_text(what, text, limits_.name_bytes);
  }
  Status check_name(std::string_view what, std::string_view text) const {
    if (text.empty()) return fail(ErrorCode::kInvalidArgument, "{}: is empty", what);
    return check_string(what, text);
  }
  Status check_rank(std::string_view what, std::size_t rank) const {
    if (rank >= 1 && rank <= limits_.rank) return {};
    return fail(ErrorCode::kInvalidArgument, "{}: rank {}, expected 1 to {}", what, rank,
                limits_.rank);
  }

  Status check_boundary(std::string_view what, std::span<const BoundarySpec> specs) const {
    PACELINE_RETURN_IF_ERROR(check_count(what, specs.size(), limits_.tensors));
    for (const BoundarySpec& spec : specs) {
      PACELINE_RETURN_IF_ERROR(check_name(what, spec.name));
      // The rows are one axis more.
      PACELINE_RETURN_IF_ERROR(check_rank(what, spec.row_shape.size() + 1));
      if (!checked_product(spec.row_shape)) {
        return fail(ErrorCode::kInvalidArgument, "{}: the row shape of '{}' overflows", what,
                    spec.name);
      }
    }
    return {};
  }

  Status check_sequence(const StepSequence& s) const {
    PACELINE_RETURN_IF_ERROR(
        check_count("step.sequences.operations", s.operations.size(), limits_.operations));
    PACELINE_RETURN_IF_ERROR(
        check_count("step.sequences.blocks: groups", s.blocks.size(), limits_.kv_groups));
    const std::uint64_t end = std::uint64_t{s.past_tokens} + s.new_tokens;
    PACELINE_RETURN_IF_ERROR(check_count("step.sequences: past and new tokens", end, kMaxToken));
    const bool wants_tokens = address_.stage.value() == 0 && tensors_.empty();
    const std::size_t expected = wants_tokens ? s.new_tokens : 0;
    if (s.tokens.size() != expected) {
      return fail(ErrorCode::kInvalidArgument,
                  "step.sequences.tokens: {} for sequence {}, expected {} (stage {})",
                  s.tokens.size(), s.sequence.value(), expected, address_.stage.value());
    }
    for (const TokenRef& token : s.tokens) PACELINE_RETURN_IF_ERROR(check_token_ref(token));
    return check_sampled_rows(s);
  }

  Status check_token_ref(const TokenRef& token) const {
    if (const auto* literal = std::get_if<std::int64_t>(&token)) {
      return check_token("step.sequences.tokens", *literal);
    }
    const auto& reference = std::get<TokenReference>(token);
    if (reference.step < address_.step) return {};
    return fail(ErrorCode::kInvalidArgument,
                "step.sequences.tokens: refers to step {}, expected one before {}",
                reference.step.value(), address_.step.value());
  }

  /// The payload against the step's rows.
  Status check_rows(std::uint64_t rows) const {
    if (rows > 0 && address_.stage.value() > 0 && tensors_.empty()) {
      return fail(ErrorCode::kInvalidArgument, "step: {} rows for stage {} without tensors", rows,
                  address_.stage.value());
    }
    if (rows == 0 && !tensors_.empty()) {
      return fail(ErrorCode::kInvalidArgument, "step: {} tensors without rows", tensors_.size());
    }
    for (const TensorDescription& tensor : tensors_) {
      if (tensor.shape[0] != rows) {
        return fail(ErrorCode::kInvalidArgument, "tensor '{}': {} rows, but the step has {}",
                    tensor.name, tensor.shape[0], rows);
      }
    }
    return {};
  }

  const Address& address_;
  std::span<const TensorDescription> tensors_;
  const Limits& limits_;
};

}  // namespace

Status validate(const Address& address, const Message& message,
                std::span<const TensorDescription> tensors, const Limits& limits) {
  const Validator validator(address, tensors, limits);
  PACELINE_RETURN_IF_ERROR(validator.check_tensors());
  const Kind kind = kind_of(message);
  if (!tensors.empty() && kind != Kind::kStep && kind != Kind::kPiece) {
    return fail(ErrorCode::kInvalidArgument, "tensors: {} in {}, expected none", tensors.size(),
                to_string(kind));
  }
  return std::visit(validator, message);
}

}  // namespace paceline::wire
