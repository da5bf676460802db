// What the processes of a chain say to each other, as plain structs (docs/wire.md has the meaning
// and the bytes). Protobuf types stay inside the codec: no other code sees them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/element_type.h"
#include "base/engine_kind.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/link_precision.h"
#include "base/profile.h"
#include "sampling/sampling_spec.h"
#include "wire/shared_bytes.h"

namespace paceline::wire {

/// The numbers are on the wire: never reuse one.
enum class Kind : std::uint16_t {
  kNone = 0,  ///< no kind; only in Fault::regarding
  kHello = 1,
  kWelcome = 2,
  kAssignStage = 3,
  kStageReady = 4,
  kLinkStage = 5,
  kLinkAccepted = 6,
  kStep = 7,
  kStepResult = 8,
  kPing = 9,
  kPong = 10,
  kFault = 11,
  kReleaseChain = 12,
  kGoodbye = 13,
  kReadPiece = 14,
  kPiece = 15,
  kStepSampling = 16,
};
/// e.g. "assign_stage"; "unknown" for a number that is no kind.
std::string_view to_string(Kind kind);

/// The lowest protocol version that has this kind; its frames carry it.
std::uint16_t version_of(Kind kind);

/// Whom a frame is for, and which step it belongs to (0: none).
struct Address {
  ChainId chain;
  Epoch epoch;
  StageId stage;
  StepId step;
  friend bool operator==(const Address&, const Address&) = default;
};

/// Protocol versions [min, max].
struct VersionRange {
  std::uint16_t min = 0;
  std::uint16_t max = 0;
  friend bool operator==(VersionRange, VersionRange) = default;
};

enum class Role : std::uint8_t { kCoordinator = 1, kUpstreamStage = 2, kFetcher = 3 };

struct Hello {
  VersionRange versions;
  std::string software_version;
  Role role = Role::kCoordinator;
  std::string name;  ///< for messages about the owner, e.g. "anna@desk-4"
  std::string openvino_version;
  std::string isa;  ///< e.g. "avx512_core_amx"
  friend bool operator==(const Hello&, const Hello&) = default;
};

struct HeldPackage {
  std::string digest;
  std::string source;  ///< what it was compiled from
  friend bool operator==(const HeldPackage&, const HeldPackage&) = default;
};

struct Welcome {
  std::uint16_t version = 0;  ///< the one chosen
  std::string software_version;
  std::string name;
  std::string openvino_version;
  std::string isa;
  std::vector<HeldPackage> packages;
  std::uint64_t available_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint32_t threads = 0;
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

struct RouteEntry {
  /// "host:port"; a worker may stand in a route more than once. Empty: over the coordinator.
  std::string address;
  LayerRange layers;
  friend bool operator==(const RouteEntry&, const RouteEntry&) = default;
};

struct AssignStage {
  std::string package_digest;
  LayerRange layers;
  Profile profile = Profile::kFast;
  std::uint32_t threads = 0;  ///< 0: the device's choice
  std::uint32_t context_tokens = 0;
  std::uint32_t kv_blocks = 0;
  std::uint32_t logical_block_tokens = 0;
  std::vector<RouteEntry> route;  ///< the frame's address.stage is the receiver's entry
  EngineKind engine = EngineKind::kPaged;
  LinkPrecision link_precision = LinkPrecision::kNative;  ///< kInt8 in profile fast only
  friend bool operator==(const AssignStage&, const AssignStage&) = default;
};

/// A named tensor that crosses a stage boundary; axis 0 is the step's rows.
struct BoundarySpec {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<std::uint64_t> row_shape;  ///< e.g. [hidden]
  friend bool operator==(const BoundarySpec&, const BoundarySpec&) = default;
};

struct StageReady {
  LayerRange layers;
  std::uint64_t weight_bytes = 0;
  std::uint64_t kv_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t anonymous_bytes = 0;
  std::uint64_t load_us = 0;
  bool is_first = false;
  bool is_last = false;
  std::uint64_t vocabulary_size = 0;  ///< last stage only
  std::vector<BoundarySpec> output_boundary;
  std::string form;                        ///< "compiled" or "imported"; empty from an older peer
  std::uint64_t compile_us = 0;            ///< of load_us: reading, cutting, compiling or importing
  EngineKind engine = EngineKind::kPaged;  ///< an older peer knows no other, and says nothing
  std::uint32_t max_sequences = 0;         ///< that it holds at a time; 0: as many as have blocks
  bool keeps_kv_apart = false;  ///< no forks, block copies or prefixes: each sequence begins at 0
  LinkPrecision link_precision = LinkPrecision::kNative;  ///< an older peer says nothing
  bool masks_grammars = false;   ///< last stage only; an older peer would answer in any form
  std::uint64_t mean_width = 0;  ///< last stage only: of SequenceSpec::want_mean; 0: it gives none
  friend bool operator==(const StageReady&, const StageReady&) = default;
};

/// What the upstream stage believes about the link; compare_links() (handshake.h) judges it.
struct LinkStage {
  std::string package_digest;
  LayerRange upstream_layers;
  LayerRange downstream_layers;
  Profile profile = Profile::kFast;
  std::string isa;
  std::string openvino_version;
  std::uint32_t logical_block_tokens = 0;
  std::vector<BoundarySpec> boundary;
  EngineKind engine = EngineKind::kPaged;
  LinkPrecision link_precision = LinkPrecision::kNative;
  friend bool operator==(const LinkStage&, const LinkStage&) = default;
};

struct LinkAccepted {
  friend bool operator==(const LinkAccepted&, const LinkAccepted&) = default;
};

/// The token that an earlier step sampled at one of its rows (numbered over that whole step).
struct TokenReference {
  StepId step;
  std::uint32_t row = 0;
  friend bool operator==(const TokenReference&, const TokenReference&) = default;
};
/// A literal id (0 to INT32_MAX) or a reference.
using TokenRef = std::variant<std::int64_t, TokenReference>;

struct Fork {
  SequenceId from;  ///< this sequence begins as a copy of that one
  friend bool operator==(const Fork&, const Fork&) = default;
};
struct Truncate {
  std::uint32_t tokens = 0;  ///< what is left
  friend bool operator==(const Truncate&, const Truncate&) = default;
};
struct Free {
  friend bool operator==(const Free&, const Free&) = default;
};
using Operation = std::variant<Fork, Truncate, Free>;

struct StepSequence {
  SequenceId sequence;
  std::uint32_t past_tokens = 0;
  std::uint32_t new_tokens = 0;
  std::vector<TokenRef> tokens;  ///< stage 0: one per new token (or embeddings); else empty
  std::vector<std::uint32_t> sampled_rows;   ///< of this sequence's new rows, rising
  std::vector<Operation> operations;         ///< done in order, before the rows
  std::vector<std::vector<BlockId>> blocks;  ///< per KV group, covering past + new tokens
  /// Guesses, to be checked by the last stage: the tokens of the last rows, which are sampled rows
  /// with the one before them. Where all rows are guesses, the first is one of the sequence's last
  /// sample.
  std::vector<std::uint32_t> drafts = {};
  friend bool operator==(const StepSequence&, const StepSequence&) = default;
};

struct SequenceSpec {
  SequenceId sequence;
  sampling::SamplingSpec sampling;
  std::vector<std::int64_t> history;  ///< tokens from position 0 on that count for the sampler
  bool want_logits_digest = false;
  std::uint32_t prompt_tokens = 0;  ///< where the answer begins
  /// The sample after the prompt comes with the mean of what the head reads of the prompt's rows.
  bool want_mean = false;
  friend bool operator==(const SequenceSpec&, const SequenceSpec&) = default;
};

struct BlockCopy {
  std::uint32_t group = 0;
  BlockId from;
  BlockId to;
  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

struct StageTime {
  StageId stage;
  std::uint64_t queue_us = 0;
  std::uint64_t compute_us = 0;
  friend bool operator==(const StageTime&, const StageTime&) = default;
};

/// Its number is the frame's address.step; its boundary tensors are the frame's tensors.
struct Step {
  std::vector<StepSequence> sequences;
  std::vector<SequenceSpec> opened;
  std::vector<BlockCopy> copies;
  std::vector<StageTime> stage_times;
  /// Sampled rows, drafts and all of `opened` but the numbers come in a StepSampling.
  bool sampled_apart = false;
  friend bool operator==(const Step&, const Step&) = default;
};

struct SequenceSampling {
  SequenceId sequence;
  std::vector<std::uint32_t> sampled_rows;  ///< as in StepSequence
  std::vector<std::uint32_t> drafts;
  friend bool operator==(const SequenceSampling&, const SequenceSampling&) = default;
};

/// What the last stage alone needs of the step address.step (step_parts.h).
struct StepSampling {
  std::vector<SequenceSampling> sequences;  ///< those of the step that have any, in its order
  std::vector<SequenceSpec> opened;         ///< one for each of the step's, in its order
  friend bool operator==(const StepSampling&, const StepSampling&) = default;
};

struct TokenLogprob {
  std::int64_t token = 0;
  float logprob = 0.0F;
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct Sample {
  SequenceId sequence;
  std::uint32_t row = 0;  ///< numbered over the whole step
  std::int64_t token = 0;
  float logprob = 0.0F;                ///< 0 unless asked for
  std::uint64_t logits_digest = 0;     ///< 0 unless asked for
  std::vector<TokenLogprob> top = {};  ///< the likeliest, where asked for
  /// Why the sequence gets no further (its grammar allows no token); then `token` means nothing.
  std::string failure = {};
  std::vector<float> mean = {};  ///< of the prompt's rows; empty unless asked for
  friend bool operator==(const Sample&, const Sample&) = default;
};

enum class Outcome : std::uint8_t { kDone = 1, kFailed = 2, kCancelled = 3 };

/// Of the step address.step.
struct StepResult {
  Outcome outcome = Outcome::kDone;
  std::vector<Sample> samples;
  std::vector<StageTime> stage_times;
  ErrorCode error_code = ErrorCode::kUnknown;  ///< kFailed only
  std::string error_message;                   ///< kFailed only
  friend bool operator==(const StepResult&, const StepResult&) = default;
};

struct Ping {
  std::uint64_t nonce = 0;
  std::uint64_t sent_us = 0;
  friend bool operator==(const Ping&, const Ping&) = default;
};

struct Pong {
  std::uint64_t nonce = 0;
  std::uint64_t busy_us = 0;  ///< how long the current step has been computing; 0: idle
  std::uint32_t queued_steps = 0;
  std::uint64_t resident_bytes = 0;   ///< of the process, now
  std::uint64_t anonymous_bytes = 0;  ///< resident and not backed by a file
  friend bool operator==(const Pong&, const Pong&) = default;
};

/// A named failure of what the address says: a step, an assignment, a link, the connection.
struct Fault {
  ErrorCode code = ErrorCode::kUnknown;
  std::string message;
  Kind regarding = Kind::kNone;
  friend bool operator==(const Fault&, const Fault&) = default;
};

struct ReleaseChain {
  friend bool operator==(const ReleaseChain&, const ReleaseChain&) = default;
};

struct Goodbye {
  std::string reason;
  friend bool operator==(const Goodbye&, const Goodbye&) = default;
};

/// Asks for bytes [offset, offset + bytes) of a package's file.
struct ReadPiece {
  std::string package_digest;
  std::string file;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  friend bool operator==(const ReadPiece&, const ReadPiece&) = default;
};

/// The bytes are the frame's only tensor, named kPieceTensor.
struct Piece {
  std::uint64_t offset = 0;
  std::uint64_t file_bytes = 0;  ///< of the whole file
  friend bool operator==(const Piece&, const Piece&) = default;
};
inline constexpr char kPieceTensor[] = "piece";

/// In the order of the kinds' numbers.
using Message =
    std::variant<Hello, Welcome, AssignStage, StageReady, LinkStage, LinkAccepted, Step, StepResult,
                 Ping, Pong, Fault, ReleaseChain, Goodbye, ReadPiece, Piece, StepSampling>;
Kind kind_of(const Message& message);

struct Tensor {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<std::uint64_t> shape;
  SharedBytes data;  ///< little-endian; received ones are aligned to 16 bytes
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

struct Frame {
  Address address;
  Message message;
  std::vector<Tensor> tensors;  ///< Step and Piece only
  friend bool operator==(const Frame&, const Frame&) = default;
};

}  // namespace paceline::wire
