// libFuzzer target: any bytes, in pieces of any size, give frames that can be sent again, or an
// error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "wire/codec.h"

namespace {

void check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

// The first byte is the size of the pieces (0: all at once).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] == 0 ? size : data[0];
  std::span<const std::byte> bytes = std::as_bytes(std::span(data, size)).subspan(1);
  paceline::wire::Limits limits;
  limits.payload_bytes = 1U << 20;
  paceline::wire::FrameDecoder decoder(limits);
  std::vector<paceline::wire::Frame> frames;
  while (!bytes.empty()) {
    const std::size_t count = std::min(piece, bytes.size());
    if (!decoder.feed(bytes.first(count), frames)) break;
    bytes = bytes.subspan(count);
  }
  for (const paceline::wire::Frame& frame : frames) {
    const auto encoded = paceline::wire::encode(frame, limits);
    check(encoded.has_value());
    paceline::wire::FrameDecoder again(limits);
    std::vector<paceline::wire::Frame> copies;
    check(again.feed(paceline::wire::flatten(*encoded), copies).has_value());
    check(copies.size() == 1 && copies[0].address == frame.address);
  }
  return 0;
}
