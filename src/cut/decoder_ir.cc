#include "cut/decoder_ir.h"

#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "cut/openvino_error.h"

namespace paceline::cut {

std::span<const std::byte> DecoderIr::weight_bytes() const {
  const ov::Tensor& read_only = weights;  // the mapping gives no pointer to write through
  return {static_cast<const std::byte*>(read_only.data()), read_only.get_byte_size()};
}

Result<DecoderIr> read_decoder_ir(ov::Core& core, const std::filesystem::path& xml,
                                  const std::filesystem::path& bin) {
  std::ifstream file(xml, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    return fail(ErrorCode::kNotFound, "{}: cannot be read", xml.string());
  }
  std::error_code unreadable;
  if (std::filesystem::file_size(bin, unreadable) == 0 || unreadable) {
    return fail(ErrorCode::kNotFound, "{}: cannot be read or is empty", bin.string());
  }
  try {
    DecoderIr ir;
    ir.weights = ov::read_tensor_data(bin);
    ir.model = core.read_model(text, ir.weights);
    return ir;
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kDataLoss, "{}: not a readable OpenVINO IR: {}", xml.string(),
                one_line(exception));
  }
}

}  // namespace paceline::cut
