// Protobuf -> structs.
#include <limits>
#include <string_view>
#include <utility>

#include "wire/header_codec.h"
#include "wire/header_fields.h"
#include "wire/proto_include.h"
#include "wire/step_decode.h"

namespace paceline::wire {
namespace {

tl::unexpected<Error> unknown_number(std::string_view what, std::uint64_t number) {
  return fail(ErrorCode::kUnimplemented, "{}: {} is not known to this version", what, number);
}

Result<Profile> profile_from_number(std::string_view what, std::uint32_t number) {
  if (number == 1) return Profile::kFast;
  if (number == 2) return Profile::kExact;
  return unknown_number(what, number);
}

Result<EngineKind> engine_from_number(std::string_view what, std::uint32_t number) {
  if (number <= 1) return EngineKind::kPaged;
  if (number == 2) return EngineKind::kStateful;
  return unknown_number(what, number);
}

Result<LinkPrecision> link_precision_from_number(std::string_view what, std::uint32_t number) {
  if (number <= 1) return LinkPrecision::kNative;
  if (number == 2) return LinkPrecision::kInt8;
  return unknown_number(what, number);
}

LayerRange layers_from(const proto::Layers& in) { return {in.begin(), in.end()}; }

template <typename Field>
Result<std::vector<std::uint64_t>> shape_from(std::string_view what, const Field& in,
                                              const Limits& limits) {
  if (static_cast<std::uint32_t>(in.size()) > limits.rank) {
    return fail(ErrorCode::kInvalidArgument, "{}: rank {}, at most {}", what, in.size(),
                limits.rank);
  }
  return std::vector<std::uint64_t>(in.begin(), in.end());
}

template <typename Field>
Result<std::vector<BoundarySpec>> boundary_from(std::string_view what, const Field& in,
                                                const Limits& limits) {
  std::vector<BoundarySpec> specs;
  for (const proto::BoundarySpec& spec : in) {
    const auto type = element_type_from_number(spec.type());
    if (!type) return unknown_number(what, spec.type());
    PACELINE_ASSIGN_OR_RETURN(auto row_shape, shape_from(what, spec.row_shape(), limits));
    specs.push_back({spec.name(), *type, std::move(row_shape)});
  }
  return specs;
}

Result<Message> decode(const proto::Hello& in) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint16_t>::max();
  if (in.min_version() > kMost || in.max_version() > kMost) {
    return fail(ErrorCode::kInvalidArgument, "hello.versions: {} to {}, at most {}",
                in.min_version(), in.max_version(), kMost);
  }
  if (in.role() < 1 || in.role() > 3) return unknown_number("hello.role", in.role());
  Hello out;
  out.versions = {static_cast<std::uint16_t>(in.min_version()),
                  static_cast<std::uint16_t>(in.max_version())};
  out.software_version = in.software_version();
  out.role = static_cast<Role>(in.role());
  out.name = in.name();
  out.openvino_version = in.openvino_version();
  out.isa = in.isa();
  return out;
}

Result<Message> decode(const proto::Welcome& in) {
  if (in.version() > std::numeric_limits<std::uint16_t>::max()) {
    return fail(ErrorCode::kInvalidArgument, "welcome.version: {}", in.version());
  }
  Welcome out;
  out.version = static_cast<std::uint16_t>(in.version());
  out.software_version = in.software_version();
  out.name = in.name();
  out.openvino_version = in.openvino_version();
  out.isa = in.isa();
  for (const auto& package : in.packages()) {
    out.packages.push_back({package.digest(), package.source()});
  }
  out.available_bytes = in.available_bytes();
  out.total_bytes = in.total_bytes();
  out.threads = in.threads();
  return out;
}

Result<Message> decode(const proto::AssignStage& in) {
  AssignStage out;
  out.package_digest = in.package_digest();
  out.layers = layers_from(in.layers());
  PACELINE_ASSIGN_OR_RETURN(out.profile, profile_from_number("assign_stage.profile", in.profile()));
  out.threads = in.threads();
  out.context_tokens = in.context_tokens();
  out.kv_blocks = in.kv_blocks();
  out.logical_block_tokens = in.logical_block_tokens();
  for (const auto& entry : in.route()) {
    out.route.push_back({entry.address(), layers_from(entry.layers())});
  }
  PACELINE_ASSIGN_OR_RETURN(out.engine, engine_from_number("assign_stage.engine", in.engine()));
  PACELINE_ASSIGN_OR_RETURN(
      out.link_precision,
      link_precision_from_number("assign_stage.link_precision", in.link_precision()));
  return out;
}

Result<Message> decode(const proto::StageReady& in, const Limits& limits) {
  StageReady out;
  out.layers = layers_from(in.layers());
  out.weight_bytes = in.weight_bytes();
  out.kv_bytes = in.kv_bytes();
  out.resident_bytes = in.resident_bytes();
  out.anonymous_bytes = in.anonymous_bytes();
  out.load_us = in.load_us();
  out.is_first = in.is_first();
  out.is_last = in.is_last();
  out.vocabulary_size = in.vocabulary_size();
  PACELINE_ASSIGN_OR_RETURN(out.output_boundary, boundary_from("stage_ready.output_boundary",
                                                               in.output_boundary(), limits));
  out.form = in.form();
  out.compile_us = in.compile_us();
  PACELINE_ASSIGN_OR_RETURN(out.engine, engine_from_number("stage_ready.engine", in.engine()));
  PACELINE_ASSIGN_OR_RETURN(
      out.link_precision,
      link_precision_from_number("stage_ready.link_precision", in.link_precision()));
  out.max_sequences = in.max_sequences();
  out.keeps_kv_apart = in.keeps_kv_apart();
  out.masks_grammars = in.masks_grammars();
  out.mean_width = in.mean_width();
  return out;
}

Result<Message> decode(const proto::LinkStage& in, const Limits& limits) {
  LinkStage out;
  out.package_digest = in.package_digest();
  out.upstream_layers = layers_from(in.upstream_layers());
  out.downstream_layers = layers_from(in.downstream_layers());
  PACELINE_ASSIGN_OR_RETURN(out.profile, profile_from_number("link_stage.profile", in.profile()));
  out.isa = in.isa();
  out.openvino_version = in.openvino_version();
  out.logical_block_tokens = in.logical_block_tokens();
  PACELINE_ASSIGN_OR_RETURN(out.boundary,
                            boundary_from("link_stage.boundary", in.boundary(), limits));
  PACELINE_ASSIGN_OR_RETURN(out.engine, engine_from_number("link_stage.engine", in.engine()));
  PACELINE_ASSIGN_OR_RETURN(
      out.link_precision,
      link_precision_from_number("link_stage.link_precision", in.link_precision()));
  return out;
}

Result<Message> decode(const proto::Fault& in) {
  if (in.regarding() > std::variant_size_v<Message>) {
    return unknown_number("fault.regarding", in.regarding());
  }
  return Fault{error_code_from_number(in.code()), in.message(), static_cast<Kind>(in.regarding())};
}

Result<Message> decode_body(const proto::Header& in, const Limits& limits) {
  switch (in.body_case()) {
    case proto::Header::kHello:
      return decode(in.hello());
    case proto::Header::kWelcome:
      return decode(in.welcome());
    case proto::Header::kAssignStage:
      return decode(in.assign_stage());
    case proto::Header::kStageReady:
      return decode(in.stage_ready(), limits);
    case proto::Header::kLinkStage:
      return decode(in.link_stage(), limits);
    case proto::Header::kLinkAccepted:
      return LinkAccepted{};
    case proto::Header::kStep:
      return decode_step(in.step(), limits);
    case proto::Header::kStepResult:
      return decode_step_result(in.step_result());
    case proto::Header::kPing:
      return Ping{in.ping().nonce(), in.ping().sent_us()};
    case proto::Header::kPong:
      return Pong{in.pong().nonce(), in.pong().busy_us(), in.pong().queued_steps(),
                  in.pong().resident_bytes(), in.pong().anonymous_bytes()};
    case proto::Header::kFault:
      return decode(in.fault());
    case proto::Header::kReleaseChain:
      return ReleaseChain{};
    case proto::Header::kGoodbye:
      return Goodbye{in.goodbye().reason()};
    case proto::Header::kReadPiece:
      return ReadPiece{in.read_piece().package_digest(), in.read_piece().file(),
                       in.read_piece().offset(), in.read_piece().bytes()};
    case proto::Header::kPiece:
      return Piece{in.piece().offset(), in.piece().file_bytes()};
    case proto::Header::kStepSampling:
      return decode_step_sampling(in.step_sampling(), limits);
    case proto::Header::BODY_NOT_SET:
      break;
  }
  return fail(ErrorCode::kDataLoss, "message header: holds no message");
}

Result<std::vector<TensorDescription>> tensors_from(const proto::Header& in, const Limits& limits) {
  if (static_cast<std::uint32_t>(in.tensors_size()) > limits.tensors) {
    return fail(ErrorCode::kResourceExhausted, "tensors: {}, at most {}", in.tensors_size(),
                limits.tensors);
  }
  std::vector<TensorDescription> tensors;
  for (const proto::TensorDescription& tensor : in.tensors()) {
    const auto type = element_type_from_number(tensor.type());
    if (!type) return unknown_number("tensor.type", tensor.type());
    PACELINE_ASSIGN_OR_RETURN(auto shape, shape_from("tensor.shape", tensor.shape(), limits));
    tensors.push_back({tensor.name(), *type, std::move(shape), tensor.bytes()});
  }
  return tensors;
}

}  // namespace

Result<MessageHeader> decode_header(Kind kind, std::span<const std::byte> bytes,
                                    const Limits& limits) {
  if (bytes.size() > limits.header_bytes) {
    return fail(ErrorCode::kResourceExhausted, "header_bytes: {}, at most {}", bytes.size(),
                limits.header_bytes);
  }
  PACELINE_RETURN_IF_ERROR(count_header_fields(bytes, limits.header_fields));
  proto::Header header;
  if (!header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return fail(ErrorCode::kDataLoss, "message header: expected a protobuf message, it is damaged");
  }
  PACELINE_ASSIGN_OR_RETURN(auto message, decode_body(header, limits));
  if (kind_of(message) != kind) {
    return fail(ErrorCode::kInvalidArgument, "kind: the frame says {}, its header holds {}",
                to_string(kind), to_string(kind_of(message)));
  }
  PACELINE_ASSIGN_OR_RETURN(auto tensors, tensors_from(header, limits));
  return MessageHeader{std::move(message), std::move(tensors)};
}

}  // namespace paceline::wire
