// What every reader of a published model gives: a configuration, a vocabulary and named tensors.
//
// Readers are safe against hostile files: each length is checked
// against the file before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace paceline::model {

/// Storage of a tensor's elements; the block types are those of ggml. F8_E4M3 is the kind without
/// infinities, whose scale is a tensor of its own.
enum class TensorType {
  kF32,
  kF16,
  kBF16,
  kF8_E4M3,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
};
/// One more than the last type's number.
inline constexpr std::size_t kTensorTypes = 16;

/// e.g. "Q4_1"
std::string_view to_string(TensorType type);
/// Elements per block (1 where elements are stored singly), along the last dimension.
std::size_t block_elements(TensorType type);
std::size_t block_bytes(TensorType type);

struct TensorInfo {
  std::string name;  ///< as the source has it, e.g. "blk.0.attn_q.weight"
  TensorType type = TensorType::kF32;
  std::vector<std::uint64_t> shape;  ///< row-major: [rows, columns], the contiguous one last
  std::uint64_t size_bytes = 0;
};

/// Named tensors of one model. Thread-safe to read.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// The file, as messages have it.
  virtual const std::string& name() const = 0;
  virtual std::span<const TensorInfo> tensors() const = 0;
  /// Fills `into` with the tensor's stored bytes (blocks along rows) from `offset` on. Nothing
  /// stays mapped, so a reader's memory is its own buffer. `tensor` is one of tensors(), and the
  /// range lies in its size_bytes.
  virtual Status read(const TensorInfo& tensor, std::uint64_t offset,
                      std::span<std::byte> into) const = 0;
  /// kNotFound names the tensor.
  virtual Result<const TensorInfo*> find(std::string_view name) const;
};

}  // namespace paceline::model
