#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "wire/codec.h"
#include "wire/header_codec.h"
#include "wire/proto_include.h"

namespace paceline::wire {
namespace {

/// Decodes what a peer of another make could send.
std::string decoded(Kind kind, const proto::Header& header, const Limits& limits = {}) {
  std::vector<std::byte> bytes(header.ByteSizeLong());
  EXPECT_TRUE(header.SerializeToArray(bytes.data(), static_cast<int>(bytes.size())));
  const auto message = decode_header(kind, bytes, limits);
  return message ? "accepted" : message.error().message();
}

TEST(DecodeHeaderTest, AnEngineThatIsNotNamedIsThePagedOne) {
  for (const std::uint32_t number : {0U, 1U}) {
    proto::Header header;
    header.mutable_assign_stage()->set_profile(1);
    header.mutable_assign_stage()->set_engine(number);
    std::vector<std::byte> bytes(header.ByteSizeLong());
    EXPECT_TRUE(header.SerializeToArray(bytes.data(), static_cast<int>(bytes.size())));
    const auto message = decode_header(Kind::kAssignStage, bytes, Limits());
    ASSERT_TRUE(message) << message.error().message();
    EXPECT_EQ(std::get<AssignStage>(message->message).engine, EngineKind::kPaged);
  }
}

TEST(DecodeHeaderTest, UnknownNumbersAreRefusedByName) {
  proto::Header header;
  header.mutable_hello()->set_role(4);
  EXPECT_EQ(decoded(Kind::kHello, header), "hello.role: 4 is not known to this version");
  header.mutable_assign_stage()->set_profile(0);
  EXPECT_EQ(decoded(Kind::kAssignStage, header),
            "assign_stage.profile: 0 is not known to this version");
  header.mutable_assign_stage()->set_profile(1);
  header.mutable_assign_stage()->set_engine(3);
  EXPECT_EQ(decoded(Kind::kAssignStage, header),
            "assign_stage.engine: 3 is not known to this version");
  header.mutable_stage_ready()->set_engine(3);
  EXPECT_EQ(decoded(Kind::kStageReady, header),
            "stage_ready.engine: 3 is not known to this version");
  header.mutable_link_stage()->set_profile(1);
  header.mutable_link_stage()->add_boundary()->set_type(99);
  EXPECT_EQ(decoded(Kind::kLinkStage, header),
            "link_stage.boundary: 99 is not known to this version");
  header.mutable_link_stage()->clear_boundary();
  header.mutable_link_stage()->set_engine(3);
  EXPECT_EQ(decoded(Kind::kLinkStage, header), "link_stage.engine: 3 is not known to this version");
  header.mutable_step_result()->set_outcome(4);
  EXPECT_EQ(decoded(Kind::kStepResult, header),
            "step_result.outcome: 4 is not known to this version");
  header.mutable_fault()->set_regarding(17);
  EXPECT_EQ(decoded(Kind::kFault, header), "fault.regarding: 17 is not known to this version");
  header.mutable_step()->add_sequences()->add_operations();
  EXPECT_EQ(decoded(Kind::kStep, header),
            "step.sequences.operations: an operation that this version does not know");
  header.mutable_step()->clear_sequences();
  header.add_tensors()->set_type(8);
  EXPECT_EQ(decoded(Kind::kStep, header), "tensor.type: 8 is not known to this version");
}

TEST(DecodeHeaderTest, AnUnknownErrorCodeBecomesUnknown) {
  proto::Header header;
  header.mutable_fault()->set_code(200);
  std::vector<std::byte> bytes(header.ByteSizeLong());
  ASSERT_TRUE(header.SerializeToArray(bytes.data(), static_cast<int>(bytes.size())));
  const auto message = decode_header(Kind::kFault, bytes, {});
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Fault>(message->message).code, ErrorCode::kUnknown);
}

TEST(DecodeHeaderTest, TheKindMustAgreeWithTheBody) {
  proto::Header header;
  EXPECT_EQ(decoded(Kind::kPing, header), "message header: holds no message");
  header.mutable_pong();
  EXPECT_EQ(decoded(Kind::kPing, header), "kind: the frame says ping, its header holds pong");
}

TEST(DecodeHeaderTest, ReferencesStandAtPlacesOfZeroAndRise) {
  for (const std::uint32_t index : {0U, 2U}) {
    proto::Header header;
    auto& sequence = *header.mutable_step()->add_sequences();
    sequence.add_tokens(5);
    sequence.add_tokens(0);
    sequence.add_references()->set_index(1);
    EXPECT_EQ(decoded(Kind::kStep, header), "accepted");
    sequence.mutable_references(0)->set_index(index);
    EXPECT_NE(decoded(Kind::kStep, header), "accepted") << index;
    sequence.mutable_references(0)->set_index(1);
    sequence.add_references()->set_index(1);
    EXPECT_NE(decoded(Kind::kStep, header), "accepted") << "repeated";
  }
}

TEST(DecodeHeaderTest, TokensAndTheirNumbersComeInPairs) {
  proto::Header header;
  auto& opened = *header.mutable_step()->add_opened();
  opened.add_biased_tokens(3);
  EXPECT_EQ(decoded(Kind::kStep, header), "step.opened.logit_bias: 1 tokens with 0 numbers");
  opened.add_biases(0.5F);
  EXPECT_EQ(decoded(Kind::kStep, header), "accepted");
  header.mutable_step_result()->set_outcome(1);
  auto& sample = *header.mutable_step_result()->add_samples();
  sample.add_top_logprobs(-1);
  EXPECT_EQ(decoded(Kind::kStepResult, header), "step_result.samples.top: 0 tokens with 1 numbers");
}

TEST(DecodeHeaderTest, AGrammarOfAnUnknownKindIsRefused) {
  proto::Header header;
  auto& opened = *header.mutable_step()->add_opened();
  opened.set_grammar("a");
  opened.set_grammar_kind(4);
  EXPECT_EQ(decoded(Kind::kStep, header), "accepted");
  opened.set_grammar_kind(5);
  EXPECT_EQ(decoded(Kind::kStep, header),
            "step.opened.grammar: kind 5 is not known to this version");
}

// An older last stage, or an older coordinator, speaks of no means.
TEST(DecodeHeaderTest, AMeanThatIsNotNamedIsNone) {
  proto::Header header;
  header.mutable_stage_ready()->mutable_layers();
  std::vector<std::byte> bytes(header.ByteSizeLong());
  ASSERT_TRUE(header.SerializeToArray(bytes.data(), static_cast<int>(bytes.size())));
  const auto ready = decode_header(Kind::kStageReady, bytes, {});
  ASSERT_TRUE(ready);
  EXPECT_EQ(std::get<StageReady>(ready->message).mean_width, 0U);
  header.mutable_step()->add_opened();
  bytes.resize(header.ByteSizeLong());
  ASSERT_TRUE(header.SerializeToArray(bytes.data(), static_cast<int>(bytes.size())));
  const auto step = decode_header(Kind::kStep, bytes, {});
  ASSERT_TRUE(step);
  EXPECT_FALSE(std::get<Step>(step->message).opened.at(0).want_mean);
}

// What a peer that knows no penalties sends means none.
TEST(DecodeHeaderTest, AbsentSamplingFieldsMeanNothingIsDone) {
  proto::Header header;
  header.mutable_step()->add_opened();
  std::vector<std::byte> bytes(header.ByteSizeLong());
  ASSERT_TRUE(header.SerializeToArray(bytes.data(), static_cast<int>(bytes.size())));
  const auto message = decode_header(Kind::kStep, bytes, {});
  ASSERT_TRUE(message);
  sampling::SamplingSpec plain;
  plain.top_p = 0;  // the only field whose absence is no value
  EXPECT_EQ(std::get<Step>(message->message).opened.at(0).sampling, plain);
}

TEST(DecodeHeaderTest, ManySmallFieldsAreRefusedBeforeTheyAreParsed) {
  proto::Header header;
  for (int i = 0; i < 1000; ++i) header.mutable_step()->add_sequences();
  Limits limits;
  limits.header_fields = 1001;  // and the step itself
  EXPECT_EQ(decoded(Kind::kStep, header, limits), "accepted");
  limits.header_fields = 1000;
  EXPECT_EQ(decoded(Kind::kStep, header, limits), "message header: more than 1000 fields");
  limits = {};
  limits.step_tokens = 2;
  for (int i = 0; i < 3; ++i) header.mutable_step()->mutable_sequences(0)->add_tokens(1);
  EXPECT_EQ(decoded(Kind::kStep, header, limits),
            "step: 3 tokens and 0 of history, at most 2 and 1048576");
}

TEST(DecodeHeaderTest, DamagedBytesAreDataLoss) {
  const std::vector<std::vector<int>> damaged = {
      {0x0a}, {0x0a, 0x05, 0x00}, {0x0b}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0x0d, 1, 2}, {0}};
  for (const auto& values : damaged) {
    std::vector<std::byte> bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    const auto message = decode_header(Kind::kPing, bytes, {});
    ASSERT_FALSE(message);
    EXPECT_EQ(message.error().code(), ErrorCode::kDataLoss) << message.error().message();
  }
}

}  // namespace
}  // namespace paceline::wire
