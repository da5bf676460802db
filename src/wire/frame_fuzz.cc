// libFuzzer target: any bytes, in pieces of any size, give frames that can be sent again, or an
// error.
#include <algorithm>
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

void run(std::span<const std::byte> bytes, std::size_t piece) {
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
}

}  // namespace

// Byte 0 is the size of the pieces (0: all at once). Byte 1 names a kind: then a fixed header is
// put before the rest, with byte 2 as the stage and byte 3 as the payload's share, so that the
// fuzzer need not find the magic and the lengths; for any other value the rest is taken as it is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const std::span<const std::byte> rest = std::as_bytes(std::span(data, size)).subspan(4);
  std::vector<std::byte> stream;
  if (data[1] >= 1 && data[1] <= 16) {
    paceline::wire::FrameHeader header;
    header.kind = static_cast<paceline::wire::Kind>(data[1]);
    header.address = {paceline::ChainId(1), paceline::Epoch(1), paceline::StageId(data[2]),
                      paceline::StepId(9)};
    header.payload_bytes = rest.size() * data[3] / 256;
    header.header_bytes = static_cast<std::uint32_t>(rest.size() - header.payload_bytes);
    const auto fixed = paceline::wire::pack(header);
    stream.assign(fixed.begin(), fixed.end());
  }
  stream.insert(stream.end(), rest.begin(), rest.end());
  const std::size_t piece = data[0] == 0 ? stream.size() : data[0];
  run(stream, piece);
  return 0;
}
