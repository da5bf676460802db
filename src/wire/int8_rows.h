// Rows of a boundary tensor in 8 bits per value, for slow links (docs/wire.md, "Coded rows").
//
// Symmetric, a scale for each group of kInt8Group values of a row. The code of a row depends on
// that row alone, so that batches, chunks and forgotten drafts change nothing.
#pragma once

#include <cstdint>

#include "base/element_type.h"
#include "base/error.h"
#include "wire/messages.h"

namespace paceline::wire {

/// Values that share a scale. bench/links.py has what other sizes cost.
inline constexpr std::uint64_t kInt8Group = 32;

/// Types whose rows can be coded: f32 and bf16.
bool has_int8_rows(ElementType type);

/// Of a row of `values` values: a byte for each, two for the scale of each group.
std::uint64_t int8_row_bytes(std::uint64_t values);

/// A tensor of the same name, of type i8 and shape [rows, int8_row_bytes]. A value comes back
/// within half a step, which is a 127th of the largest magnitude of its group (and up to 1/128
/// more, for the scale is a bf16), and within its own type's rounding; a group whose step would be
/// below FLT_MIN comes back as 0, one that holds an infinity or NaN as NaN. kUnimplemented for
/// other types, kInvalidArgument where the shape and the bytes disagree.
Result<Tensor> to_int8(const Tensor& native);

/// The rows as the stage behind the link expects them, of `expected`'s type and shape. What a peer
/// sends gives at most as many bytes as it could have sent itself, whatever its codes and scales
/// are. kInvalidArgument names the tensor and what does not fit.
Result<Tensor> from_int8(const Tensor& coded, const BoundarySpec& expected);

}  // namespace paceline::wire
