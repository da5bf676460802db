// The manifest of a package (docs/package.md): what the model is, and which bytes of its weights
// belong to which layers.
//
// Only the description and questions about it; reading, verifying and copying are in package.h,
// making one from a graph's analysis in build_manifest.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/sampling_defaults.h"
#include "shard/sha256.h"

namespace paceline::shard {

inline constexpr char kManifestFile[] = "paceline.json";
inline constexpr char kGraphFile[] = "openvino_model.xml";
inline constexpr char kWeightsFile[] = "openvino_model.bin";

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::uint64_t kMaxManifestBytes = 64ULL << 20;
inline constexpr std::uint64_t kMaxExtentBytes = 16ULL << 20;
inline constexpr std::uint32_t kMaxLayers = 16384;
inline constexpr std::uint32_t kMaxKvDimension = 65536;
inline constexpr std::uint64_t kMaxFileBytes = 1ULL << 53;  ///< what every JSON reader keeps exact

/// Who reads some bytes of the weights.
struct Parts {
  std::vector<LayerRange> layers;  ///< sorted, not touching
  bool embedding = false;          ///< the first stage, before its layers
  bool head = false;               ///< the last stage, after its layers
  bool shared = false;             ///< every stage

  static Parts of_layers(LayerRange range);
  static Parts of_embedding();
  static Parts of_head();
  static Parts of_all();

  bool empty() const { return layers.empty() && !embedding && !head && !shared; }
  /// Also reads what `other` reads; layers stay sorted and are joined where they touch.
  void add(const Parts& other);
  /// Whether the stage of layers `range` of a model of `layer_count` layers is among the readers.
  bool read_by(LayerRange range, std::uint32_t layer_count) const;

  friend bool operator==(const Parts&, const Parts&) = default;
};

/// A hashed run of bytes of the weights file.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  ///< 1 to kMaxExtentBytes
  Sha256Digest sha256 = {};
  Parts parts;
  friend bool operator==(const Extent&, const Extent&) = default;
};

struct FileEntry {
  std::uint64_t bytes = 0;
  Sha256Digest sha256 = {};
  friend bool operator==(const FileEntry&, const FileEntry&) = default;
};

/// The KV cache of one layer: heads, and elements of one head of one token.
struct LayerKv {
  std::uint32_t key_heads = 0;
  std::uint32_t key_head_size = 0;
  std::uint32_t value_head_size = 0;
  friend bool operator==(const LayerKv&, const LayerKv&) = default;
};

struct ModelFacts {
  std::string name;          ///< may be empty
  std::string architecture;  ///< the source's name for it
  std::string source;        ///< "gguf", "openvino" or "safetensors"
  SamplingDefaults sampling = {};
  friend bool operator==(const ModelFacts&, const ModelFacts&) = default;
};

/// Bytes of the weights by what makes a stage need them; for dividing layers over stages.
struct PartBytes {
  std::vector<std::uint64_t> layers;  ///< one per layer; what several read is divided among them
  std::uint64_t embedding = 0;
  std::uint64_t head = 0;
  std::uint64_t shared = 0;
};

struct Manifest {
  std::uint32_t format_version = kFormatVersion;
  std::string paceline_version;
  ModelFacts model;
  std::uint32_t layers = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t context_tokens = 0;  ///< 0: not known
  std::string quantization;          ///< a summary for people
  std::vector<LayerKv> kv;           ///< one per layer
  std::map<std::string, FileEntry> files;
  std::uint64_t weight_bytes = 0;  ///< length of the weights file
  std::vector<Extent> extents;     ///< sorted by offset, not overlapping

  /// SHA-256 of the manifest file's bytes in hexadecimal, by which nodes compare packages. Not a
  /// field of the file: filled by parsing and writing, else empty.
  std::string digest;

  LayerRange all_layers() const { return {0, layers}; }
  /// kInvalidArgument unless `range` is a non-empty range of this model's layers.
  Status check_range(LayerRange range) const;
  /// Indices into `extents` of those that the stage of layers `range` reads, ascending.
  std::vector<std::size_t> extents_of(LayerRange range) const;
  /// The extent that holds all of [offset, offset + bytes) of the weights; nullopt where none does.
  std::optional<std::size_t> extent_with(std::uint64_t offset, std::uint64_t bytes) const;
  /// Bytes of the weights that the stage of layers `range` reads.
  std::uint64_t bytes_of(LayerRange range) const;
  /// An extent that is both embedding and head counts in both: the two stages hold it each.
  PartBytes part_bytes() const;
  /// Bytes of KV cache for one token in layers `range`, without an engine's scales and padding.
  std::uint64_t kv_bytes_per_token(LayerRange range, std::uint64_t bytes_per_element) const;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// Reads a manifest from foreign text; errors name the file and the field, e.g.
/// "paceline.json: weights.extents[3].bytes: expected an integer from 1 to 16777216, got -5".
/// kInvalidArgument for what is wrong, kFailedPrecondition for a newer format_version.
/// Work and memory are linear in the text's length, which is at most kMaxManifestBytes.
Result<Manifest> parse_manifest(std::string_view text);

/// The manifest file's text: the same for equal manifests, one line per extent.
std::string to_json(const Manifest& manifest);

/// Whether `name` may stand in `files` (docs/package.md).
bool is_package_file_name(std::string_view name);

}  // namespace paceline::shard
