#include "wire/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "wire/codec.h"

namespace paceline::wire {
namespace {

Frame good_step(std::uint32_t stage) {
  Frame frame{{ChainId(1), Epoch(1), StageId(stage), StepId(9)}, Step{}, {}};
  StepSequence sequence{SequenceId(5), 10, 2, {}, {1}, {}, {{BlockId(3)}}};
  if (stage == 0) sequence.tokens = {std::int64_t{7}, TokenReference{StepId(8), 0}};
  auto& step = std::get<Step>(frame.message);
  step.sequences = {sequence};
  step.opened = {{SequenceId(5), {}, {1, 2}, false}};
  if (stage > 0) {
    frame.tensors = {
        {"hidden", ElementType::kF32, {2, 2}, SharedBytes::own(std::vector<std::byte>(16))}};
  }
  return frame;
}

std::string refusal(const Frame& frame, const Limits& limits = {}) {
  const auto encoded = encode(frame, limits);
  return encoded ? "accepted" : encoded.error().message();
}

struct Case {
  std::string expected;
  std::uint32_t stage;
  std::function<void(Frame&, Step&)> change;
};

/// Each is the good step of its stage, changed in one place.
void expect_refusals(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    Frame frame = good_step(c.stage);
    c.change(frame, std::get<Step>(frame.message));
    EXPECT_EQ(refusal(frame), c.expected);
  }
}

TEST(ValidateTest, GoodStepsAreAccepted) {
  ASSERT_EQ(refusal(good_step(0)), "accepted");
  ASSERT_EQ(refusal(good_step(1)), "accepted");
}

TEST(ValidateTest, SequencesThatDoNotFitTogetherAreRefused) {
  const std::vector<Case> cases = {
      {"step.sequences.tokens: 1 for sequence 5, expected 2 (stage 0)", 0,
       [](Frame&, Step& s) { s.sequences[0].tokens.pop_back(); }},
      {"step.sequences.tokens: 1 for sequence 5, expected 0 (stage 1)", 1,
       [](Frame&, Step& s) { s.sequences[0].tokens = {std::int64_t{1}}; }},
      {"step.sequences.tokens: token id -1, expected 0 to 2147483647", 0,
       [](Frame&, Step& s) { s.sequences[0].tokens[0] = std::int64_t{-1}; }},
      {"step.sequences.tokens: refers to step 9, expected one before 9", 0,
       [](Frame&, Step& s) {
         s.sequences[0].tokens[1] = TokenReference{StepId(9), 0};
       }},
      {"step.sequences.sampled_rows: 2 at place 0, expected rising rows below 2", 1,
       [](Frame&, Step& s) { s.sequences[0].sampled_rows = {2}; }},
      {"step.sequences.sampled_rows: 1 at place 1, expected rising rows below 2", 1,
       [](Frame&, Step& s) {
         s.sequences[0].sampled_rows = {1, 1};
       }},
      {"step.sequences: sequence 5 stands in it twice", 1,
       [](Frame&, Step& s) { s.sequences.push_back(s.sequences[0]); }},
      {"step.opened: sequence 5 stands in it twice", 1,
       [](Frame&, Step& s) { s.opened.push_back(s.opened[0]); }},
      {"step.sequences: past and new tokens: 4294967297, at most 2147483647", 1,
       [](Frame&, Step& s) { s.sequences[0].past_tokens = UINT32_MAX; }},
      {"step.sequences.operations: 65, at most 64", 1,
       [](Frame&, Step& s) { s.sequences[0].operations.assign(65, Free{}); }},
      {"step.sequences.blocks: groups: 17, at most 16", 1,
       [](Frame&, Step& s) { s.sequences[0].blocks.resize(17); }},
  };
  expect_refusals(cases);
}

TEST(ValidateTest, SamplingOutOfItsRangeIsRefused) {
  const std::vector<Case> cases = {
      {"step.opened.temperature: nan, expected 0 or more", 1,
       [](Frame&, Step& s) { s.opened[0].sampling.temperature = std::nan(""); }},
      {"step.opened.top_p: 1.5, expected 0 to 1", 1,
       [](Frame&, Step& s) { s.opened[0].sampling.top_p = 1.5; }},
      {"step.opened.min_p: nan, expected a finite number", 1,
       [](Frame&, Step& s) { s.opened[0].sampling.min_p = std::nan(""); }},
      {"step.opened.repetition_penalty: inf, expected a finite number", 1,
       [](Frame&, Step& s) { s.opened[0].sampling.repetition_penalty = INFINITY; }},
      {"step.opened.presence_penalty: nan, expected a finite number", 1,
       [](Frame&, Step& s) { s.opened[0].sampling.presence_penalty = std::nan(""); }},
      {"step.opened.frequency_penalty: -inf, expected a finite number", 1,
       [](Frame&, Step& s) { s.opened[0].sampling.frequency_penalty = -INFINITY; }},
      {"step.opened.logit_bias: 1025, at most 1024", 1,
       [](Frame&, Step& s) { s.opened[0].sampling.logit_bias.resize(1025); }},
      {"step.opened.logit_bias: nan for token 7", 1,
       [](Frame&, Step& s) {
         s.opened[0].sampling.logit_bias = {{7, NAN}};
       }},
      {"step.opened.logit_bias: token id 2147483648, expected 0 to 2147483647", 1,
       [](Frame&, Step& s) {
         s.opened[0].sampling.logit_bias = {{1U << 31, 1}};
       }},
      {"step.opened.stop_tokens: 257, at most 256", 1,
       [](Frame&, Step& s) { s.opened[0].sampling.stop_tokens.resize(257); }},
      {"step.opened.stop_tokens: token id 2147483648, expected 0 to 2147483647", 1,
       [](Frame&, Step& s) { s.opened[0].sampling.stop_tokens = {1U << 31}; }},
      {"step.opened.grammar: bytes: 65537, at most 65536", 1,
       [](Frame&, Step& s) {
         s.opened[0].sampling.grammar = {GrammarKind::kLark, std::string(65537, 'a')};
       }},
      {"step.opened.logprobs: 21, at most 20", 1,
       [](Frame&, Step& s) { s.opened[0].sampling.logprobs = 21; }},
      {"step.opened.history: token id 2147483648, expected 0 to 2147483647", 1,
       [](Frame&, Step& s) { s.opened[0].history = {1LL << 31}; }},
  };
  expect_refusals(cases);
}

TEST(ValidateTest, DraftsOfOtherThanTheLastRowsAreRefused) {
  const std::vector<Case> cases = {
      {"step.sequences.drafts: 1 for sequence 5, expected its last 2 rows among the sampled ones",
       1, [](Frame&, Step& s) { s.sequences[0].drafts = {3}; }},
      {"step.sequences.drafts: 3 for sequence 5, expected its last 4 rows among the sampled ones",
       1,
       [](Frame&, Step& s) {
         s.sequences[0].sampled_rows = {0, 1};
         s.sequences[0].drafts = {3, 4, 5};
       }},
      {"step.sequences.drafts: 2 for sequence 5, expected its last 2 rows among the sampled ones",
       1,
       [](Frame&, Step& s) {
         s.sequences[0].sampled_rows = {1};
         s.sequences[0].drafts = {3, 4};
       }},
      {"step.sequences.drafts: token id 2147483648, expected 0 to 2147483647", 1,
       [](Frame&, Step& s) {
         s.sequences[0].sampled_rows = {0, 1};
         s.sequences[0].drafts = {1U << 31};
       }},
  };
  expect_refusals(cases);
}

TEST(ValidateTest, TensorsThatDoNotFitTheStepAreRefused) {
  const std::vector<Case> cases = {
      {"step: 2 rows for stage 1 without tensors", 1, [](Frame& f, Step&) { f.tensors.clear(); }},
      {"step: 1 tensors without rows", 1, [](Frame&, Step& s) { s.sequences.clear(); }},
      {"tensor 'hidden': 4 rows, but the step has 2", 1,
       [](Frame& f, Step&) {
         f.tensors[0].shape = {4, 1};
       }},
      {"tensor 'hidden': 16 bytes do not fit its shape and type f32", 1,
       [](Frame& f, Step&) {
         f.tensors[0].shape = {2, 3};
       }},
      {"tensor 'hidden': 16 bytes do not fit its shape and type f32", 1,
       [](Frame& f, Step&) {
         f.tensors[0].shape = {1ULL << 42, 1ULL << 40};
       }},
      {"tensor.shape: rank 9, expected 1 to 8", 1,
       [](Frame& f, Step&) { f.tensors[0].shape.assign(9, 1); }},
      {"tensor.shape: rank 0, expected 1 to 8", 1,
       [](Frame& f, Step&) { f.tensors[0].shape.clear(); }},
      {"tensor.name: is empty", 1, [](Frame& f, Step&) { f.tensors[0].name.clear(); }},
      {"tensor.name: 257, at most 256", 1,
       [](Frame& f, Step&) { f.tensors[0].name.assign(257, 'a'); }},
      {"tensors: 17, at most 16", 1, [](Frame& f, Step&) { f.tensors.assign(17, f.tensors[0]); }},
  };
  expect_refusals(cases);
}

TEST(ValidateTest, DraftsOfTheLastRowsAreAccepted) {
  Frame frame = good_step(1);
  StepSequence& sequence = std::get<Step>(frame.message).sequences[0];
  sequence.sampled_rows = {0, 1};
  sequence.drafts = {7};
  EXPECT_EQ(refusal(frame), "accepted");
  sequence.drafts = {6, 7};
  EXPECT_EQ(refusal(frame), "accepted") << "the first row is a guess, too";
}

TEST(ValidateTest, TheLikeliestOfASampleAreBounded) {
  StepResult result;
  result.samples.resize(1);
  result.samples[0].top.resize(20);
  EXPECT_EQ(refusal({{}, result, {}}), "accepted");
  result.samples[0].top.resize(21);
  EXPECT_EQ(refusal({{}, result, {}}), "step_result.samples.top: 21, at most 20");
  result.samples[0].top = {{-1, 0.0F}};
  EXPECT_EQ(refusal({{}, result, {}}),
            "step_result.samples.top: token id -1, expected 0 to 2147483647");
}

TEST(ValidateTest, TheMeansOfAResultAreBounded) {
  StepResult result;
  result.samples.resize(2);
  for (auto& sample : result.samples) sample.mean.resize(std::size_t{1} << 19);
  EXPECT_EQ(refusal({{}, result, {}}), "accepted");
  result.samples[1].mean.push_back(0.0F);
  EXPECT_EQ(refusal({{}, result, {}}),
            "step_result.samples.mean: values: 1048577, at most 1048576");
}

TEST(ValidateTest, CountsAreHeldAgainstTheLimits) {
  const Frame frame = good_step(0);
  Limits few;
  few.step_tokens = 1;
  EXPECT_EQ(refusal(frame, few), "step: rows: 2, at most 1");
  Limits none;
  none.step_blocks = 0;
  EXPECT_EQ(refusal(frame, none), "step: blocks: 1, at most 0");
  Limits history;
  history.history_tokens = 1;
  EXPECT_EQ(refusal(frame, history), "step.opened: history tokens: 2, at most 1");
  Limits payload;
  payload.payload_bytes = 15;
  EXPECT_EQ(refusal(good_step(1), payload), "payload bytes: 16, at most 15");
  Limits header;
  header.header_bytes = 20;
  EXPECT_NE(refusal(frame, header).find("header_bytes"), std::string::npos);
}

TEST(ValidateTest, AnAssignmentAgreesWithItsRoute) {
  AssignStage good{"sha256:1", {0, 3}, Profile::kExact, 0, 9, 9, 32, {{"a:1", {0, 3}}}};
  EXPECT_EQ(refusal({{}, good, {}}), "accepted");
  EXPECT_EQ(refusal({{ChainId(), Epoch(), StageId(1), StepId()}, good, {}}),
            "assign_stage.route: 1 entries, none for stage 1");
  AssignStage other = good;
  other.layers = {0, 4};
  EXPECT_EQ(refusal({{}, other, {}}), "assign_stage.layers: [0, 4), but the route says [0, 3)");
  AssignStage backwards = good;
  backwards.layers = backwards.route[0].layers = {3, 2};
  EXPECT_EQ(refusal({{}, backwards, {}}), "assign_stage.layers: begin 3 is above end 2");
  AssignStage no_block = good;
  no_block.logical_block_tokens = 0;
  EXPECT_EQ(refusal({{}, no_block, {}}), "assign_stage.logical_block_tokens: expected 1 or more");
}

TEST(ValidateTest, OnlyStepsCarryTensors) {
  Frame frame = good_step(1);
  frame.message = Ping{};
  EXPECT_EQ(refusal(frame), "tensors: 1 in ping, expected none");
}

Frame good_piece() {
  Frame frame;
  frame.message = Piece{100, 103};
  frame.tensors = {
      {kPieceTensor, ElementType::kU8, {3}, SharedBytes::own(std::vector(3, std::byte{7}))}};
  return frame;
}

TEST(ValidateTest, APieceIsOneTensorWithinItsFile) {
  EXPECT_EQ(refusal(good_piece()), "accepted");
  const auto with = [](auto change) {
    Frame frame = good_piece();
    change(frame);
    return refusal(frame);
  };
  const char* shape = "piece: expected one tensor 'piece' of u8 and rank 1";
  EXPECT_EQ(with([](Frame& f) { f.tensors.clear(); }), shape);
  EXPECT_EQ(with([](Frame& f) { f.tensors.push_back(f.tensors[0]); }), shape);
  EXPECT_EQ(with([](Frame& f) { f.tensors[0].name = "part"; }), shape);
  EXPECT_EQ(with([](Frame& f) { f.tensors[0].type = ElementType::kI8; }), shape);
  EXPECT_EQ(with([](Frame& f) { f.tensors[0].shape = {3, 1}; }), shape);
  EXPECT_EQ(with([](Frame& f) { std::get<Piece>(f.message).file_bytes = 102; }),
            "piece: 3 bytes at 100 of a file of 102");
  EXPECT_EQ(with([](Frame& f) { std::get<Piece>(f.message).offset = UINT64_MAX - 1; }),
            "piece: 3 bytes at 18446744073709551614 of a file of 103");
  EXPECT_EQ(with([](Frame& f) { std::get<Piece>(f.message).file_bytes = UINT64_MAX; }),
            "piece.file_bytes: 18446744073709551615, at most 9007199254740992");
  EXPECT_EQ(with([](Frame& f) {
              f.tensors[0].shape = {(1U << 20) + 1};
              f.tensors[0].data = SharedBytes::own(std::vector<std::byte>((1U << 20) + 1));
            }),
            "piece: 1048577 bytes, expected 1 to 1048576");
  EXPECT_EQ(with([](Frame& f) {
              f.tensors[0].shape = {0};
              f.tensors[0].data = {};
            }),
            "piece: 0 bytes, expected 1 to 1048576");
}

TEST(ValidateTest, APieceIsAskedForWithinBounds) {
  const ReadPiece good = {"digest", "openvino_model.bin", 1ULL << 53, 1};
  EXPECT_EQ(refusal({{}, good, {}}), "accepted");
  ReadPiece bad = good;
  bad.bytes = 0;
  EXPECT_EQ(refusal({{}, bad, {}}), "read_piece.bytes: 0, expected 1 to 1048576");
  bad.bytes = (1U << 20) + 1;
  EXPECT_EQ(refusal({{}, bad, {}}), "read_piece.bytes: 1048577, expected 1 to 1048576");
  bad = good;
  bad.file = "";
  EXPECT_EQ(refusal({{}, bad, {}}), "read_piece.file: is empty");
  bad.file = "a\nb";
  EXPECT_EQ(refusal({{}, bad, {}}), "read_piece.file: expected UTF-8 without control characters");
  bad = good;
  ++bad.offset;
  EXPECT_EQ(refusal({{}, bad, {}}),
            "read_piece.offset: 9007199254740993, at most 9007199254740992");
}

}  // namespace
}  // namespace paceline::wire
