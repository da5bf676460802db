#include "wire/random_frames_testing.h"

#include <array>
#include <limits>
#include <utility>

#include "wire/step_parts.h"

namespace paceline::wire {
namespace {

constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMaxToken = std::numeric_limits<std::int32_t>::max();

}  // namespace

std::uint64_t RandomFrames::next() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
  return z ^ (z >> 31U);
}

std::string RandomFrames::text(std::size_t longest) {
  constexpr std::array<std::string_view, 8> kPieces = {"a", "Z", "0", " ", "-", "é", "漢", "🚴"};
  std::string text;
  const std::size_t pieces = number(1, longest / 4);
  for (std::size_t i = 0; i < pieces; ++i) text += kPieces[number(0, kPieces.size() - 1)];
  return text;
}

std::vector<std::uint64_t> RandomFrames::shape() {
  std::vector<std::uint64_t> shape(number(0, 3));
  for (auto& dimension : shape) dimension = number(1, 9);
  return shape;
}

std::vector<BoundarySpec> RandomFrames::boundary() {
  std::vector<BoundarySpec> specs(number(0, 3));
  for (auto& spec : specs) spec = {text(20), static_cast<ElementType>(number(1, 7)), shape()};
  return specs;
}

LayerRange RandomFrames::layers() {
  const auto begin = static_cast<std::uint32_t>(number(0, 100));
  return {begin, begin + static_cast<std::uint32_t>(number(0, 100))};
}

std::vector<StageTime> RandomFrames::stage_times() {
  std::vector<StageTime> times(number(0, 4));
  for (auto& time : times) {
    time = {StageId(static_cast<std::uint32_t>(number(0, kMax32))), number(0, kMax64),
            number(0, kMax64)};
  }
  return times;
}

StepSequence RandomFrames::sequence(const Address& address, std::uint64_t id) {
  StepSequence s;
  s.sequence = SequenceId(id);
  s.past_tokens = static_cast<std::uint32_t>(number(0, 1U << 20));
  s.new_tokens = static_cast<std::uint32_t>(number(0, 5));
  const std::uint64_t drafts = number(0, s.new_tokens);
  for (std::uint64_t i = 0; i < drafts; ++i) s.drafts.push_back(token());
  for (std::uint32_t row = 0; row < s.new_tokens; ++row) {
    const bool is_drafted = drafts > 0 && row + drafts + 1 >= s.new_tokens;
    if (is_drafted || number(0, 1) == 0) s.sampled_rows.push_back(row);
    if (address.stage.value() > 0) continue;
    if (number(0, 1) == 0) {
      s.tokens.emplace_back(static_cast<std::int64_t>(number(0, kMaxToken)));
    } else {
      s.tokens.emplace_back(TokenReference{StepId(number(0, address.step.value() - 1)),
                                           static_cast<std::uint32_t>(number(0, kMax32))});
    }
  }
  const std::uint64_t operations = number(0, 3);
  for (std::uint64_t i = 0; i < operations; ++i) {
    const std::array<Operation, 3> choices = {
        Fork{SequenceId(number(0, kMax64))},
        Truncate{static_cast<std::uint32_t>(number(0, kMax32))}, Free{}};
    s.operations.push_back(choices[number(0, 2)]);
  }
  s.blocks.resize(number(0, 2));
  for (auto& group : s.blocks) {
    const std::uint64_t blocks = number(0, 4);
    for (std::uint64_t i = 0; i < blocks; ++i) {
      group.emplace_back(static_cast<std::uint32_t>(number(0, kMax32)));
    }
  }
  return s;
}

SequenceSpec RandomFrames::spec(std::uint64_t id) {
  SequenceSpec spec;
  spec.sequence = SequenceId(id);
  spec.sampling.temperature = static_cast<double>(number(0, 200)) / 100.0;
  spec.sampling.top_p = static_cast<double>(number(0, 100)) / 100.0;
  spec.sampling.top_k = static_cast<std::uint32_t>(number(0, kMax32));
  spec.sampling.seed = number(0, kMax64);
  spec.sampling.choice = static_cast<std::uint32_t>(number(0, 9));
  spec.sampling.min_p = static_cast<double>(number(0, 100)) / 100.0;
  spec.sampling.repetition_penalty = static_cast<double>(number(50, 150)) / 100.0;
  spec.sampling.presence_penalty = static_cast<double>(number(0, 400)) / 100.0 - 2;
  spec.sampling.frequency_penalty = static_cast<double>(number(0, 400)) / 100.0 - 2;
  spec.sampling.logit_bias.resize(number(0, 3));
  for (auto& entry : spec.sampling.logit_bias) {
    const auto bias = static_cast<float>(number(0, 200)) - 100.0F;
    entry = {token(), number(0, 3) == 0 ? -std::numeric_limits<float>::infinity() : bias};
  }
  spec.sampling.stop_tokens.resize(number(0, 3));
  for (auto& stop : spec.sampling.stop_tokens) stop = token();
  spec.sampling.min_tokens = static_cast<std::uint32_t>(number(0, kMax32));
  if (number(0, 1) == 1) spec.sampling.logprobs = static_cast<std::uint32_t>(number(0, 20));
  if (number(0, 1) == 1) {
    spec.sampling.grammar = GrammarSpec{static_cast<GrammarKind>(number(1, 4)), text(40)};
  }
  spec.prompt_tokens = static_cast<std::uint32_t>(number(0, kMax32));
  spec.history.resize(number(0, 9));
  for (auto& earlier : spec.history) earlier = token();
  spec.want_logits_digest = number(0, 1) == 1;
  spec.want_mean = number(0, 1) == 1;
  return spec;
}

Tensor RandomFrames::tensor(std::uint64_t rows) {
  Tensor tensor;
  tensor.name = text(20);
  tensor.type = static_cast<ElementType>(number(1, 7));
  tensor.shape = shape();
  tensor.shape.insert(tensor.shape.begin(), rows);
  std::size_t bytes = size_bytes(tensor.type);
  for (const std::uint64_t dimension : tensor.shape) bytes *= dimension;
  std::vector<std::byte> data(bytes);
  for (std::byte& value : data) value = static_cast<std::byte>(next() & 0xffU);
  tensor.data = SharedBytes::own(std::move(data));
  return tensor;
}

Frame RandomFrames::step(std::uint32_t stage, std::uint32_t sequences) {
  Frame frame;
  frame.address = {ChainId(number(0, kMax64)), Epoch(static_cast<std::uint32_t>(number(0, kMax32))),
                   StageId(stage), StepId(number(1, kMax64))};
  Step step;
  std::uint64_t rows = 0;
  for (std::uint32_t i = 0; i < sequences; ++i) {
    step.sequences.push_back(sequence(frame.address, number(0, 1000) * sequences + i));
    rows += step.sequences.back().new_tokens;
  }
  const std::uint64_t opened = number(0, 2);
  for (std::uint64_t i = 0; i < opened; ++i) step.opened.push_back(spec(i));
  const std::uint64_t copies = number(0, 2);
  for (std::uint64_t i = 0; i < copies; ++i) {
    step.copies.push_back({static_cast<std::uint32_t>(number(0, 3)),
                           BlockId(static_cast<std::uint32_t>(number(0, kMax32))),
                           BlockId(static_cast<std::uint32_t>(number(0, kMax32)))});
  }
  step.stage_times = stage_times();
  if (stage > 0 && rows > 0) {
    const std::uint64_t tensors = number(1, 3);
    for (std::uint64_t i = 0; i < tensors; ++i) frame.tensors.push_back(tensor(rows));
  }
  if (number(0, 1) == 1) (void)split_sampling(step);
  frame.message = std::move(step);
  return frame;
}

StepSampling RandomFrames::sampling() {
  StepSampling m;
  m.sequences.resize(number(0, 4));
  std::uint64_t id = 0;
  for (auto& part : m.sequences) {
    part.sequence = SequenceId(id += number(1, 1000));
    part.sampled_rows.resize(number(0, 4));
    for (auto& row : part.sampled_rows) row = static_cast<std::uint32_t>(number(0, kMax32));
    part.drafts.resize(number(0, 4));
    for (auto& draft : part.drafts) draft = token();
  }
  const std::uint64_t opened = number(0, 2);
  for (std::uint64_t i = 0; i < opened; ++i) m.opened.push_back(spec(i));
  return m;
}

AssignStage RandomFrames::assignment(std::uint32_t stage) {
  AssignStage m;
  m.package_digest = text(60);
  m.profile = profile();
  m.threads = static_cast<std::uint32_t>(number(0, 64));
  m.context_tokens = static_cast<std::uint32_t>(number(0, kMax32));
  m.kv_blocks = static_cast<std::uint32_t>(number(0, kMax32));
  m.logical_block_tokens = static_cast<std::uint32_t>(number(1, 256));
  m.route.resize(stage + number(1, 3));
  for (auto& entry : m.route) entry = {text(20), layers()};
  m.layers = m.route[stage].layers;
  m.engine = engine();
  m.link_precision = link_precision();
  return m;
}

Welcome RandomFrames::welcome() {
  Welcome m;
  m.version = static_cast<std::uint16_t>(number(0, 0xffff));
  m.software_version = text(20);
  m.name = text(20);
  m.openvino_version = text(20);
  m.isa = text(20);
  m.packages.resize(number(0, 3));
  for (auto& package : m.packages) package = {text(40), text(40)};
  m.available_bytes = number(0, kMax64);
  m.total_bytes = number(0, kMax64);
  m.threads = static_cast<std::uint32_t>(number(0, kMax32));
  return m;
}

LinkStage RandomFrames::link() {
  LinkStage m;
  m.package_digest = text(60);
  m.upstream_layers = layers();
  m.downstream_layers = layers();
  m.profile = profile();
  m.isa = text(20);
  m.openvino_version = text(20);
  m.logical_block_tokens = static_cast<std::uint32_t>(number(0, kMax32));
  m.boundary = boundary();
  m.engine = engine();
  m.link_precision = link_precision();
  return m;
}

StageReady RandomFrames::ready() {
  StageReady m;
  m.layers = layers();
  m.weight_bytes = number(0, kMax64);
  m.kv_bytes = number(0, kMax64);
  m.resident_bytes = number(0, kMax64);
  m.anonymous_bytes = number(0, kMax64);
  m.load_us = number(0, kMax64);
  m.is_first = number(0, 1) == 1;
  m.is_last = number(0, 1) == 1;
  m.vocabulary_size = number(0, kMax64);
  m.output_boundary = boundary();
  m.engine = engine();
  m.link_precision = link_precision();
  m.max_sequences = static_cast<std::uint32_t>(number(0, kMax32));
  m.keeps_kv_apart = number(0, 1) == 1;
  m.masks_grammars = number(0, 1) == 1;
  m.mean_width = number(0, kMax64);
  m.form = text(20);
  m.compile_us = number(0, kMax64);
  return m;
}

StepResult RandomFrames::result() {
  StepResult m;
  m.outcome = static_cast<Outcome>(number(1, 3));
  m.samples.resize(number(0, 4));
  for (auto& sample : m.samples) {
    sample = {SequenceId(number(0, kMax64)), static_cast<std::uint32_t>(number(0, kMax32)),
              static_cast<std::int64_t>(number(0, kMaxToken)),
              -static_cast<float>(number(0, 1000)) / 64.0F, number(0, kMax64)};
    if (number(0, 3) == 0) sample.failure = text(60);
    if (number(0, 3) == 0) sample.mean.resize(number(1, 9));
    for (auto& value : sample.mean) value = static_cast<float>(number(0, 1000)) / 64.0F - 8.0F;
    sample.top.resize(number(0, 3));
    for (auto& entry : sample.top) {
      entry = {std::int64_t{token()}, -static_cast<float>(number(0, 1000)) / 64.0F};
    }
  }
  m.stage_times = stage_times();
  m.error_code = static_cast<ErrorCode>(number(0, 14));
  m.error_message = text(40);
  return m;
}

Message RandomFrames::simple(Kind kind) {
  switch (kind) {
    case Kind::kHello:
      return Hello{{static_cast<std::uint16_t>(number(0, 0xffff)),
                    static_cast<std::uint16_t>(number(0, 0xffff))},
                   text(20),
                   static_cast<Role>(number(1, 3)),
                   text(20),
                   text(20),
                   text(20)};
    case Kind::kPing:
      return Ping{number(0, kMax64), number(0, kMax64)};
    case Kind::kPong:
      return Pong{number(0, kMax64), number(0, kMax64),
                  static_cast<std::uint32_t>(number(0, kMax32)), number(0, kMax64),
                  number(0, kMax64)};
    case Kind::kFault:
      return Fault{static_cast<ErrorCode>(number(0, 14)), text(80),
                   static_cast<Kind>(number(0, 16))};
    case Kind::kReleaseChain:
      return ReleaseChain{};
    case Kind::kGoodbye:
      return Goodbye{text(80)};
    default:
      return LinkAccepted{};
  }
}

ReadPiece RandomFrames::read_piece() {
  return {text(60), text(40), number(0, 1ULL << 53),
          static_cast<std::uint32_t>(number(1, 1U << 20))};
}

void RandomFrames::set_piece(Frame& frame) {
  std::vector<std::byte> data(number(1, 300));
  for (std::byte& value : data) value = static_cast<std::byte>(next() & 0xffU);
  Piece piece;
  piece.offset = number(0, 1ULL << 52);
  piece.file_bytes = piece.offset + data.size() + number(0, 1000);
  frame.message = piece;
  const std::uint64_t bytes = data.size();
  frame.tensors = {{kPieceTensor, ElementType::kU8, {bytes}, SharedBytes::own(std::move(data))}};
}

Frame RandomFrames::frame(Kind kind) {
  const auto stage = static_cast<std::uint32_t>(number(0, 4));
  if (kind == Kind::kStep) return step(stage, static_cast<std::uint32_t>(number(0, 4)));
  Frame frame;
  frame.address = {ChainId(number(0, kMax64)), Epoch(static_cast<std::uint32_t>(number(0, kMax32))),
                   StageId(stage), StepId(number(0, kMax64))};
  switch (kind) {
    case Kind::kWelcome:
      frame.message = welcome();
      break;
    case Kind::kAssignStage:
      frame.message = assignment(stage);
      break;
    case Kind::kStageReady:
      frame.message = ready();
      break;
    case Kind::kLinkStage:
      frame.message = link();
      break;
    case Kind::kStepResult:
      frame.message = result();
      break;
    case Kind::kStepSampling:
      frame.message = sampling();
      break;
    case Kind::kReadPiece:
      frame.message = read_piece();
      break;
    case Kind::kPiece:
      set_piece(frame);
      break;
    default:
      frame.message = simple(kind);
  }
  return frame;
}

}  // namespace paceline::wire
