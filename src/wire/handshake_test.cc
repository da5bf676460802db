#include "wire/handshake.h"

#include <gtest/gtest.h>

#include <functional>

#include "wire/codec.h"
#include "wire/random_frames_testing.h"
#include "wire/text.h"

namespace paceline::wire {
namespace {

LinkStage good_link() {
  return {"sha256:aa",   {0, 10},    {10, 30}, Profile::kExact,
          "avx512_core", "2026.4.1", 32,       {{"hidden", ElementType::kF32, {1, 576}}}};
}

TEST(CompareLinksTest, EachFieldIsNamedWithBothValues) {
  ASSERT_TRUE(compare_links(good_link(), good_link()));
  const std::vector<std::pair<std::string, std::function<void(LinkStage&)>>> cases = {
      {"package_digest differs: the upstream stage has 'sha256:bb', this stage 'sha256:aa'",
       [](LinkStage& l) { l.package_digest = "sha256:bb"; }},
      {"upstream_layers differs: the upstream stage has [1, 10), this stage [0, 10)",
       [](LinkStage& l) { l.upstream_layers.begin = 1; }},
      {"downstream_layers differs: the upstream stage has [10, 20), this stage [10, 30)",
       [](LinkStage& l) { l.downstream_layers.end = 20; }},
      {"profile differs: the upstream stage has fast, this stage exact",
       [](LinkStage& l) { l.profile = Profile::kFast; }},
      {"engine differs: the upstream stage has stateful, this stage paged",
       [](LinkStage& l) { l.engine = EngineKind::kStateful; }},
      {"isa differs: the upstream stage has 'avx2', this stage 'avx512_core'",
       [](LinkStage& l) { l.isa = "avx2"; }},
      {"openvino_version differs: the upstream stage has '2026.5', this stage '2026.4.1'",
       [](LinkStage& l) { l.openvino_version = "2026.5"; }},
      {"logical_block_tokens differs: the upstream stage has 16, this stage 32",
       [](LinkStage& l) { l.logical_block_tokens = 16; }},
      {"link_precision differs: the upstream stage has int8, this stage native",
       [](LinkStage& l) { l.link_precision = LinkPrecision::kInt8; }},
      {"number of boundary tensors differs: the upstream stage has 0, this stage 1",
       [](LinkStage& l) { l.boundary.clear(); }},
      {"boundary[0].name differs: the upstream stage has 'h', this stage 'hidden'",
       [](LinkStage& l) { l.boundary[0].name = "h"; }},
      {"boundary[0].type differs: the upstream stage has bf16, this stage f32",
       [](LinkStage& l) { l.boundary[0].type = ElementType::kBF16; }},
      {"boundary[0].row_shape differs: the upstream stage has [576], this stage [1, 576]",
       [](LinkStage& l) { l.boundary[0].row_shape = {576}; }},
  };
  for (const auto& [expected, change] : cases) {
    LinkStage offered = good_link();
    change(offered);
    const Status status = compare_links(offered, good_link());
    ASSERT_FALSE(status) << expected;
    EXPECT_EQ(status.error().message(), "link: " + expected);
    EXPECT_EQ(status.error().code(), ErrorCode::kFailedPrecondition);
  }
}

TEST(CompareLinksTest, RangesMustMeetEvenWhereBothAgree) {
  LinkStage gap = good_link();
  gap.downstream_layers.begin = 11;
  const Status status = compare_links(gap, gap);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "link: layers [0, 10) and [11, 30) do not meet");
}

TEST(NegotiateVersionTest, TheHighestCommonOneOrWhichSideToUpdate) {
  EXPECT_EQ(negotiate_version({1, 1}, {1, 1}).value(), 1);
  EXPECT_EQ(negotiate_version({1, 3}, {2, 5}).value(), 3);
  EXPECT_EQ(negotiate_version({2, 5}, {1, 3}).value(), 3);
  EXPECT_EQ(negotiate_version({1, 1}, {2, 2}).error().message(),
            "protocol version: this side speaks 1, the peer speaks 2: update this side");
  EXPECT_EQ(negotiate_version({2, 3}, {1, 1}).error().message(),
            "protocol version: this side speaks 2 to 3, the peer speaks 1: update the peer");
  EXPECT_EQ(negotiate_version({1, 1}, {3, 2}).error().code(), ErrorCode::kInvalidArgument);
}

std::vector<std::byte> with_version(const Frame& frame, int version) {
  auto bytes = flatten(encode(frame).value());
  bytes[5] = static_cast<std::byte>(version);
  return bytes;
}

TEST(ProtocolVersionTest, HelloAndFaultAreReadInAnyVersionOthersAreNot) {
  std::vector<Frame> frames;
  const Frame hello{{}, Hello{{1, 3}, "9.0", Role::kUpstreamStage, "n", "o", "i"}, {}};
  EXPECT_TRUE(FrameDecoder().feed(with_version(hello, 4), frames));
  EXPECT_EQ(frames.at(0), hello);
  EXPECT_TRUE(FrameDecoder().feed(with_version({{}, Fault{}, {}}, 4), frames));
  const Status newer = FrameDecoder().feed(with_version({{}, Ping{}, {}}, 4), frames);
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().message(),
            "protocol version: this side speaks 1 to 3, the peer speaks 4: update this side");
  const Status older = FrameDecoder().feed(with_version({{}, Ping{}, {}}, 0), frames);
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().message(),
            "protocol version: this side speaks 1 to 3, the peer speaks 0: update the peer");
}

TEST(ProtocolVersionTest, AFrameCarriesTheLowestVersionThatHasItsKind) {
  RandomFrames random(5);
  for (int number = 1; number <= 16; ++number) {
    const Frame frame = random.frame(static_cast<Kind>(number));
    const auto bytes = flatten(encode(frame).value());
    EXPECT_EQ(static_cast<int>(bytes[5]), number <= 13 ? 1 : number <= 15 ? 2 : 3) << number;
    std::vector<Frame> frames;
    EXPECT_EQ(FrameDecoder().feed(with_version(frame, 2), frames).has_value(), number <= 15)
        << number;
    EXPECT_TRUE(FrameDecoder().feed(with_version(frame, 3), frames)) << number;
    const Status in_first = FrameDecoder().feed(with_version(frame, 1), frames);
    EXPECT_EQ(in_first.has_value(), number <= 13);
    if (!in_first) {
      EXPECT_EQ(in_first.error().message(),
                fmt::format("kind: {} is not known to protocol version 1", number));
    }
  }
}

TEST(TextTest, OnlyWellFormedPrintableUtf8IsValid) {
  for (const char* good : {"", "abc", "é漢🚴", "\xc2\xa0"}) EXPECT_TRUE(is_valid_text(good));
  for (const char* bad :
       {"a\nb", "\x7f", "\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc2\x85", "\x80", "\x1b[2J"}) {
    EXPECT_FALSE(is_valid_text(bad)) << bad;
    EXPECT_TRUE(is_valid_text(clean_text(bad, 99)));
  }
  EXPECT_EQ(clean_text("aé", 2), "a");
  EXPECT_EQ(clean_text("a\r\né\xff", 99), "a??é?");
}

}  // namespace
}  // namespace paceline::wire
