#include "model/tensor_source.h"

#include <algorithm>
#include <array>

#include "model/foreign_text.h"

namespace paceline::model {
namespace {

struct Row {
  std::string_view name;
  std::size_t elements;
  std::size_t bytes;
};
// Indexed by the enumerator. Bytes per block as in ggml: scales (f16 d, and minimum; packed scales
// of groups), then quants.
constexpr std::array<Row, kTensorTypes> kRows = {{{"F32", 1, 4},
                                                  {"F16", 1, 2},
                                                  {"BF16", 1, 2},
                                                  {"F8_E4M3", 1, 1},
                                                  {"Q8_0", 32, 2 + 32},
                                                  {"Q4_0", 32, 2 + 16},
                                                  {"Q4_1", 32, 2 + 2 + 16},
                                                  {"Q5_0", 32, 2 + 4 + 16},
                                                  {"Q5_1", 32, 2 + 2 + 4 + 16},
                                                  {"Q2_K", 256, 16 + 64 + 2 + 2},
                                                  {"Q3_K", 256, 32 + 64 + 12 + 2},
                                                  {"Q4_K", 256, 2 + 2 + 12 + 128},
                                                  {"Q5_K", 256, 2 + 2 + 12 + 32 + 128},
                                                  {"Q6_K", 256, 128 + 64 + 16 + 2},
                                                  {"IQ4_NL", 32, 2 + 16},
                                                  {"IQ4_XS", 256, 2 + 2 + 4 + 128}}};

const Row& row(TensorType type) { return kRows[static_cast<std::size_t>(type)]; }

}  // namespace

std::string_view to_string(TensorType type) { return row(type).name; }
std::size_t block_elements(TensorType type) { return row(type).elements; }
std::size_t block_bytes(TensorType type) { return row(type).bytes; }

Result<const TensorInfo*> TensorSource::find(std::string_view name) const {
  const auto all = tensors();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const TensorInfo& tensor) { return tensor.name == name; });
  if (found == all.end()) {
    return fail(ErrorCode::kNotFound, "{}: tensor {}: is missing", this->name(), in_quotes(name));
  }
  return &*found;
}

}  // namespace paceline::model
