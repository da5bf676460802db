#include "wire/codec.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "wire/random_frames_testing.h"

namespace paceline::wire {
namespace {

std::vector<std::byte> bytes_of(const Frame& frame, const Limits& limits = {}) {
  auto encoded = encode(frame, limits);
  EXPECT_TRUE(encoded) << (encoded ? "" : encoded.error().message());
  return encoded ? flatten(*encoded) : std::vector<std::byte>{};
}

Status decode_all(std::span<const std::byte> bytes, std::vector<Frame>& frames) {
  FrameDecoder decoder;
  return decoder.feed(bytes, frames);
}

Error error_of(std::span<const std::byte> bytes) {
  std::vector<Frame> frames;
  const Status status = decode_all(bytes, frames);
  return status ? Error(ErrorCode::kUnknown, "no error") : status.error();
}

FrameHeader header_of(Kind kind, std::uint32_t header_bytes = 0, std::uint64_t payload_bytes = 0) {
  FrameHeader header;
  header.kind = kind;
  header.header_bytes = header_bytes;
  header.payload_bytes = payload_bytes;
  return header;
}

TEST(CodecTest, EveryKindSurvivesTheWayThere) {
  RandomFrames random(1);
  for (int number = 1; number <= 16; ++number) {
    const Frame frame = random.frame(static_cast<Kind>(number));
    ASSERT_EQ(static_cast<int>(kind_of(frame.message)), number);
    std::vector<Frame> decoded;
    ASSERT_TRUE(decode_all(bytes_of(frame), decoded)) << to_string(kind_of(frame.message));
    ASSERT_EQ(decoded.size(), 1U);
    EXPECT_EQ(decoded[0], frame) << to_string(kind_of(frame.message));
  }
}

TEST(CodecTest, RandomStreamsSurviveAnyDivisionIntoPieces) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    RandomFrames random(seed);
    std::vector<Frame> sent(random.number(1, 12));
    std::vector<std::byte> stream;
    for (Frame& frame : sent) {
      frame = random.frame();
      const auto bytes = bytes_of(frame);
      stream.insert(stream.end(), bytes.begin(), bytes.end());
    }
    FrameDecoder decoder;
    std::vector<Frame> got;
    std::span<const std::byte> rest(stream);
    while (!rest.empty()) {
      const std::size_t count = std::min<std::size_t>(rest.size(), random.number(0, 200));
      const Status status = decoder.feed(rest.first(count), got);
      ASSERT_TRUE(status) << "seed " << seed << ": " << status.error().message();
      rest = rest.subspan(count);
    }
    EXPECT_FALSE(decoder.is_mid_frame());
    EXPECT_EQ(got, sent) << "seed " << seed;
  }
}

TEST(CodecTest, TheFixedHeaderIsAsDocumented) {
  Frame frame{{ChainId(0x0102030405060708), Epoch(0x11121314), StageId(0x21222324),
               StepId(0x3132333435363738)},
              Ping{1, 2},
              {}};
  const auto bytes = bytes_of(frame);
  const std::array<unsigned char, kFrameHeaderBytes> expected = {
      'P',  'A',  'C',  'E',  0,    1,    0,    9,    1,    2,    3,    4,
      5,    6,    7,    8,    0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
      0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0,    0,    0,    7,
      0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0};
  ASSERT_EQ(bytes.size(), kFrameHeaderBytes + 7);
  EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), expected.size()), 0);
}

TEST(CodecTest, TensorBytesAreSharedNotCopiedAndComeInOrder) {
  RandomFrames random(3);
  Frame frame = random.step(2, 0);
  std::get<Step>(frame.message).sequences.push_back({SequenceId(5), 0, 2, {}, {}, {}, {}});
  frame.tensors = {{"a", ElementType::kU8, {2, 3}, SharedBytes::own(std::vector(6, std::byte{1}))},
                   {"b", ElementType::kF32, {2}, SharedBytes::own(std::vector(8, std::byte{2}))}};
  const auto encoded = encode(frame);
  ASSERT_TRUE(encoded);
  ASSERT_EQ(encoded->payload.size(), 2U);
  EXPECT_EQ(encoded->payload[0].bytes().data(), frame.tensors[0].data.bytes().data());
  EXPECT_EQ(encoded->size_bytes, encoded->head.size() + 14);
  const auto bytes = flatten(*encoded);
  EXPECT_EQ(bytes[bytes.size() - 9], std::byte{1});
  EXPECT_EQ(bytes[bytes.size() - 8], std::byte{2});
  std::vector<Frame> decoded;
  ASSERT_TRUE(decode_all(bytes, decoded));
  EXPECT_EQ(decoded.at(0), frame);
  for (const Tensor& tensor : decoded[0].tensors) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data.bytes().data()) % 16, 0U);  // NOLINT
  }
}

TEST(CodecTest, FailureTextIsCleanedSoThatItCanAlwaysBeSent) {
  const std::string raw = "line\nbreak \xff" + std::string(9000, 'x');
  const auto bytes = bytes_of({{}, Fault{ErrorCode::kInternal, raw, Kind::kStep}, {}});
  std::vector<Frame> decoded;
  ASSERT_TRUE(decode_all(bytes, decoded));
  const auto& fault = std::get<Fault>(decoded.at(0).message);
  EXPECT_EQ(fault.message.substr(0, 12), "line?break ?");
  EXPECT_EQ(fault.message.size(), Limits().message_bytes);
  EXPECT_FALSE(encode({{}, Hello{{1, 1}, "a\nb", Role::kCoordinator, "", "", ""}, {}}));
}

TEST(CodecTest, EveryTruncationIsIncompleteAndNeverAFrame) {
  RandomFrames random(4);
  for (int number = 1; number <= 16; ++number) {
    const auto bytes = bytes_of(random.frame(static_cast<Kind>(number)));
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      FrameDecoder decoder;
      std::vector<Frame> frames;
      ASSERT_TRUE(decoder.feed(std::span(bytes).first(length), frames)) << "length " << length;
      EXPECT_TRUE(frames.empty());
      EXPECT_EQ(decoder.is_mid_frame(), length > 0);
    }
  }
}

TEST(CodecTest, MutatedFramesGiveAFrameThatEncodesOrAnError) {
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    RandomFrames random(seed);
    auto bytes = bytes_of(random.frame());
    const std::uint64_t changes = random.number(1, 4);
    for (std::uint64_t i = 0; i < changes; ++i) {
      bytes[random.number(0, bytes.size() - 1)] = static_cast<std::byte>(random.number(0, 255));
    }
    Limits limits;
    limits.payload_bytes = 1U << 20;
    FrameDecoder decoder(limits);
    std::vector<Frame> frames;
    if (!decoder.feed(bytes, frames)) ++refused;
    for (const Frame& frame : frames) {
      EXPECT_TRUE(encode(frame, limits)) << "seed " << seed << " was read but cannot be sent";
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(CodecTest, GarbageIsRefusedAtTheMagic) {
  const std::string text = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
  const Error error = error_of(std::as_bytes(std::span(text)));
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_EQ(error.message(), "magic: expected 'PACE' (0x50414345), got 0x47455420");
}

TEST(CodecTest, LengthsAreRefusedWithTheFixedHeaderAlone) {
  EXPECT_EQ(error_of(pack(header_of(Kind::kStep, (16U << 20) + 1))).message(),
            "header_bytes: 16777217, at most 16777216");
  EXPECT_EQ(error_of(pack(header_of(Kind::kStep, 10, (1ULL << 30) + 1))).code(),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(error_of(pack(header_of(Kind::kPing, 10, 1))).message(),
            "payload_bytes: 1, at most 0 in ping");
}

TEST(CodecTest, UnknownKindsAndFlagsAreUnimplemented) {
  for (const int kind : {0, 17, 0xffff}) {
    EXPECT_EQ(error_of(pack(header_of(static_cast<Kind>(kind)))).code(), ErrorCode::kUnimplemented)
        << kind;
  }
  auto bytes = pack(header_of(Kind::kPing));
  bytes[39] = std::byte{1};
  EXPECT_EQ(error_of(bytes).message(), "flags: expected 0, got 0x1");
}

TEST(CodecTest, AnErrorStays) {
  FrameDecoder decoder;
  std::vector<Frame> frames;
  ASSERT_FALSE(decoder.feed(std::vector(kFrameHeaderBytes, std::byte{0}), frames));
  const Status again = decoder.feed(bytes_of({{}, Ping{}, {}}), frames);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), ErrorCode::kDataLoss);
  EXPECT_TRUE(decoder.next_span().empty());
  EXPECT_FALSE(decoder.advance(0));
  EXPECT_TRUE(frames.empty());
}

TEST(CodecTest, FramesBeforeAnErrorAreKept) {
  auto bytes = bytes_of({{}, Ping{7, 8}, {}});
  bytes.resize(bytes.size() + kFrameHeaderBytes);
  std::vector<Frame> frames;
  EXPECT_FALSE(decode_all(bytes, frames));
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(std::get<Ping>(frames[0].message).nonce, 7U);
}

TEST(CodecTest, PayloadMemoryGrowsWithTheBytesThatArrive) {
  Frame frame{{ChainId(1), Epoch(1), StageId(1), StepId(1)}, Step{}, {}};
  std::get<Step>(frame.message).sequences.push_back({SequenceId(5), 0, 1, {}, {}, {}, {}});
  constexpr std::size_t kBytes = 24U << 20;
  frame.tensors = {
      {"x", ElementType::kU8, {1, kBytes}, SharedBytes::own(std::vector(kBytes, std::byte{7}))}};
  const auto encoded = encode(frame);
  ASSERT_TRUE(encoded);
  FrameDecoder decoder;
  std::vector<Frame> frames;
  ASSERT_TRUE(decoder.feed(encoded->head, frames));
  EXPECT_LE(decoder.next_span().size(), PayloadBuffer::kFirstBytes);
  std::size_t received = 0;
  while (received < kBytes) {
    const auto room = decoder.next_span();
    EXPECT_LE(room.size(), std::max(received, PayloadBuffer::kFirstBytes));
    std::memset(room.data(), 7, room.size());
    received += room.size();
    auto complete = decoder.advance(room.size());
    ASSERT_TRUE(complete);
    if (*complete) frames.push_back(std::move(**complete));
  }
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0], frame);
}

TEST(CodecTest, AConnectionBeginsWithItsHandshake) {
  FrameDecoder decoder({}, FirstFrame::kHandshake);
  std::vector<Frame> frames;
  const Status status = decoder.feed(pack(header_of(Kind::kStep, 10, 1U << 20)), frames);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "first frame: expected hello or welcome, got step");

  FrameDecoder good({}, FirstFrame::kHandshake);
  RandomFrames random(9);
  ASSERT_TRUE(good.feed(bytes_of(random.frame(Kind::kHello)), frames));
  ASSERT_TRUE(good.feed(bytes_of(random.frame(Kind::kStep)), frames));
  EXPECT_EQ(frames.size(), 2U);

  FrameDecoder large({}, FirstFrame::kHandshake);
  EXPECT_FALSE(large.feed(pack(header_of(Kind::kHello, (1U << 20) + 1)), frames));
}

}  // namespace
}  // namespace paceline::wire
