#include "wire/step_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "wire/codec.h"
#include "wire/random_frames_testing.h"

namespace paceline::wire {
namespace {

constexpr std::int64_t kTold = 0x51feca7;  // a token id that stands nowhere else

/// A whole step for the last stage, all of whose tokens are kTold: three rows of which two are
/// sampled, with a draft, a sequence that has rows only, and one that is opened.
Frame whole_step() {
  const auto token = static_cast<std::uint32_t>(kTold);
  Step step;
  step.sequences = {{SequenceId(5), 10, 3, {}, {1, 2}, {}, {{BlockId(3)}}, {token}},
                    {SequenceId(6), 0, 1, {}, {}, {}, {{BlockId(4)}}}};
  SequenceSpec spec{SequenceId(6), {}, {kTold, kTold}, true, 7};
  spec.sampling.temperature = 0.5;
  spec.sampling.repetition_penalty = 1.25;
  spec.sampling.stop_tokens = {token};
  spec.sampling.logit_bias = {{token, 2.0F}};
  step.opened = {spec};
  Frame frame{{ChainId(1), Epoch(1), StageId(2), StepId(9)}, step, {}};
  frame.tensors = {
      {"hidden", ElementType::kF32, {4, 1}, SharedBytes::own(std::vector<std::byte>(16))}};
  return frame;
}

Step& step_of(Frame& frame) { return std::get<Step>(frame.message); }

/// Whether kTold stands in the frame's bytes, as protobuf writes it.
bool tells(const Frame& frame) {
  const auto bytes = flatten(encode(frame).value());
  std::vector<std::byte> varint;
  std::uint64_t left = kTold;
  for (; left > 0x7f; left >>= 7U) varint.push_back(static_cast<std::byte>((left & 0x7fU) | 0x80U));
  varint.push_back(static_cast<std::byte>(left));
  return std::search(bytes.begin(), bytes.end(), varint.begin(), varint.end()) != bytes.end();
}

TEST(StepPartsTest, ThePartsOfAnyStepAreJoinedToIt) {
  RandomFrames random(3);
  for (int round = 0; round < 300; ++round) {
    Frame frame = random.step(static_cast<std::uint32_t>(random.number(0, 3)),
                              static_cast<std::uint32_t>(random.number(0, 4)));
    if (step_of(frame).sampled_apart) continue;
    const Step before = step_of(frame);
    StepSampling sampling = split_sampling(step_of(frame));
    EXPECT_TRUE(encode(frame)) << encode(frame).error().message();
    EXPECT_TRUE(encode({frame.address, sampling, {}}));
    const Status joined = join_sampling(step_of(frame), std::move(sampling));
    ASSERT_TRUE(joined) << joined.error().message();
    EXPECT_EQ(step_of(frame), before);
  }
}

TEST(StepPartsTest, WhatGoesFromStageToStageTellsNoToken) {
  Frame frame = whole_step();
  ASSERT_TRUE(tells(frame));
  const StepSampling sampling = split_sampling(step_of(frame));
  EXPECT_FALSE(tells(frame));
  EXPECT_TRUE(tells({frame.address, sampling, {}}));
  EXPECT_EQ(sampling.sequences.size(), 1U) << "the sequences that have something to say";
}

TEST(StepPartsTest, AStepInPartsThatTellsMoreCannotBeSent) {
  struct Case {
    std::string expected;
    std::function<void(Step&)> change;
  };
  const std::vector<Case> cases = {
      {"1 sampled rows and 0 drafts of sequence 5, expected none",
       [](Step& s) { s.sequences[0].sampled_rows = {2}; }},
      {"more than the number of sequence 6", [](Step& s) { s.opened[0].history = {kTold}; }},
      {"more than the number of sequence 6", [](Step& s) { s.opened[0].prompt_tokens = 1; }},
      {"more than the number of sequence 6", [](Step& s) { s.opened[0].sampling.seed = 1; }},
      {"more than the number of sequence 6", [](Step& s) { s.opened[0].want_mean = true; }},
      {"more than the number of sequence 6",
       [](Step& s) { s.opened[0].want_logits_digest = true; }},
      {"step.sequences.tokens: 1 for sequence 5, expected 0",
       [](Step& s) { s.sequences[0].tokens = {kTold}; }},
  };
  for (const Case& c : cases) {
    Frame frame = whole_step();
    (void)split_sampling(step_of(frame));
    c.change(step_of(frame));
    const auto encoded = encode(frame);
    ASSERT_FALSE(encoded) << c.expected;
    EXPECT_NE(encoded.error().message().find(c.expected), std::string::npos)
        << encoded.error().message();
  }
}

TEST(StepPartsTest, PartsThatDoNotFitAreRefused) {
  struct Case {
    std::string expected;
    std::function<void(StepSampling&)> change;
  };
  const std::vector<Case> cases = {
      {"step_sampling.sequences: 7, expected those of the step, in its order",
       [](StepSampling& s) { s.sequences[0].sequence = SequenceId(7); }},
      {"step_sampling.sequences: 5, expected those of the step, in its order",
       [](StepSampling& s) {
         s.sequences.push_back({SequenceId(5), {}, {}});
       }},
      {"step.sequences.sampled_rows: 3 at place 1, expected rising rows below 3",
       [](StepSampling& s) {
         s.sequences[0].sampled_rows = {1, 3};
       }},
      {"step.sequences.drafts: 1 for sequence 5, expected its last 2 rows among the sampled ones",
       [](StepSampling& s) { s.sequences[0].sampled_rows = {2}; }},
      {"step_sampling.opened: 0 sequences, expected the 1 that the step opens",
       [](StepSampling& s) { s.opened.clear(); }},
      {"step_sampling.opened: 1 sequences, expected the 1 that the step opens",
       [](StepSampling& s) { s.opened[0].sequence = SequenceId(5); }},
  };
  for (const Case& c : cases) {
    Frame frame = whole_step();
    StepSampling sampling = split_sampling(step_of(frame));
    c.change(sampling);
    const Status joined = join_sampling(step_of(frame), std::move(sampling));
    ASSERT_FALSE(joined) << c.expected;
    EXPECT_EQ(joined.error().message(), c.expected);
  }
}

TEST(StepPartsTest, APartIsCheckedOnBothSides) {
  struct Case {
    std::string expected;
    std::function<void(StepSampling&)> change;
  };
  const std::vector<Case> cases = {
      {"step_sampling.sequences: sequence 5 stands in it twice",
       [](StepSampling& s) { s.sequences.push_back(s.sequences[0]); }},
      {"step_sampling.sequences.drafts: token id 4294967295, expected 0 to 2147483647",
       [](StepSampling& s) { s.sequences[0].drafts = {0xffffffff}; }},
      {"step.opened.history: token id -1, expected 0 to 2147483647",
       [](StepSampling& s) { s.opened[0].history = {-1}; }},
      {"step_sampling.sequences: 3, at most 2", [](StepSampling& s) { s.sequences.resize(3); }},
      {"step_sampling: sampled rows: 9, at most 8",
       [](StepSampling& s) { s.sequences[0].sampled_rows.resize(9); }},
      {"step_sampling: drafts: 9, at most 8",
       [](StepSampling& s) { s.sequences[0].drafts.resize(9); }},
  };
  Limits limits;
  limits.sequences = 2;
  limits.step_tokens = 8;
  for (const Case& c : cases) {
    Frame frame = whole_step();
    StepSampling sampling = split_sampling(step_of(frame));
    c.change(sampling);
    const auto encoded = encode({frame.address, sampling, {}}, limits);
    ASSERT_FALSE(encoded) << c.expected;
    EXPECT_EQ(encoded.error().message(), c.expected);
  }
}

}  // namespace
}  // namespace paceline::wire
