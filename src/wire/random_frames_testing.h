// Random valid frames for property tests and fuzz seeds; the same seed gives the same frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "wire/messages.h"

namespace paceline::wire {

/// Lifecycle: one per test. Thread-compatible.
class RandomFrames {
 public:
  explicit RandomFrames(std::uint64_t seed) : state_(seed) {}

  /// A valid frame of this kind.
  Frame frame(Kind kind);
  /// A valid frame of any kind.
  Frame frame() { return frame(static_cast<Kind>(number(1, 16))); }
  /// A step with `rows` rows: literal tokens and references for stage 0, else boundary tensors.
  Frame step(std::uint32_t stage, std::uint32_t sequences);
  /// Evenly (up to the remainder) in [low, high].
  std::uint64_t number(std::uint64_t low, std::uint64_t high) {
    const std::uint64_t choices = high - low + 1;
    return choices == 0 ? next() : low + next() % choices;
  }

 private:
  /// SplitMix64 (Steele, Lea, Flood 2014).
  std::uint64_t next();
  std::string text(std::size_t longest);
  std::uint32_t token() {
    return static_cast<std::uint32_t>(number(0, std::numeric_limits<std::int32_t>::max()));
  }
  std::vector<std::uint64_t> shape();
  std::vector<BoundarySpec> boundary();
  LayerRange layers();
  EngineKind engine() { return number(0, 1) == 0 ? EngineKind::kPaged : EngineKind::kStateful; }
  LinkPrecision link_precision() {
    return number(0, 1) == 0 ? LinkPrecision::kNative : LinkPrecision::kInt8;
  }
  Profile profile() { return number(0, 1) == 0 ? Profile::kFast : Profile::kExact; }
  std::vector<StageTime> stage_times();
  StepSampling sampling();
  StepSequence sequence(const Address& address, std::uint64_t id);
  SequenceSpec spec(std::uint64_t id);
  Tensor tensor(std::uint64_t rows);
  AssignStage assignment(std::uint32_t stage);
  Welcome welcome();
  LinkStage link();
  StageReady ready();
  StepResult result();
  Message simple(Kind kind);
  ReadPiece read_piece();
  /// With its tensor.
  void set_piece(Frame& frame);

  std::uint64_t state_;
};

}  // namespace paceline::wire
