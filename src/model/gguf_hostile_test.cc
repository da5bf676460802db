// Files that are damaged or made to harm: each gets one line that names the field, and no more
// memory or time than its bytes are worth.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "model/foreign_text.h"
#include "model/gguf.h"
#include "model/gguf_test_writer.h"

namespace paceline::model {
namespace {

using Change = std::function<void(GgufTestWriter&)>;

GgufTestWriter whole_model() {
  GgufTestWriter writer;
  writer.set_string("general.architecture", "llama");
  writer.set_u32("llama.block_count", 1).set_u32("llama.embedding_length", 32);
  writer.set_u32("llama.feed_forward_length", 32).set_u32("llama.context_length", 512);
  writer.set_u32("llama.attention.head_count", 4).set_u32("llama.attention.head_count_kv", 2);
  writer.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-6F);
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_strings("tokenizer.ggml.tokens", {"a", "b"});
  writer.add({"token_embd.weight", {2, 32}, 8, std::string(2 * 34, '\0')});
  writer.add({"output_norm.weight", {32}, 0, std::string(32 * 4, '\0')});
  return writer;
}

/// The error that opening and asking for everything ends in; empty where there is none.
std::string error_of(std::vector<std::byte> bytes) {
  const auto file = GgufFile::from_memory("bad.gguf", std::move(bytes));
  if (!file) return file.error().message();
  const auto config = (*file)->decoder_config();
  if (!config) return config.error().message();
  const auto vocabulary = (*file)->vocabulary();
  return vocabulary ? "" : vocabulary.error().message();
}

std::string error_after(const Change& change) {
  GgufTestWriter writer = whole_model();
  change(writer);
  return error_of(writer.finish());
}

void expect_error(const Change& change, const std::string& expected) {
  const std::string message = error_after(change);
  EXPECT_NE(message.find(expected), std::string::npos) << message;
  EXPECT_EQ(message.rfind("bad.gguf: ", 0), 0U) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_LT(message.size(), 300U) << message;
}

TEST(GgufHostileTest, TheUnchangedFileIsFine) {
  EXPECT_EQ(error_after([](GgufTestWriter&) {}), "");
}

TEST(GgufHostileTest, EveryTruncationIsAnError) {
  const auto whole = whole_model().finish();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    if (size + 32 > whole.size()) break;  // padding after the last tensor
    EXPECT_NE(error_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}), "")
        << size;
  }
}

TEST(GgufHostileTest, ChangedBytesNeverCrash) {
  const auto whole = whole_model().finish();
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    auto bytes = whole;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const std::string message = error_of(std::move(bytes));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(GgufHostileTest, HeadersAreRefusedByWhatTheyAre) {
  EXPECT_NE(error_of({}).find("magic"), std::string::npos);
  EXPECT_NE(error_of(std::vector<std::byte>(100)).find("magic: is 0x00000000, expected \"GGUF\""),
            std::string::npos);
  expect_error([](GgufTestWriter& w) { w.version = 1; }, "version: is 1, expected 2 or 3");
  expect_error([](GgufTestWriter& w) { w.version = 4; }, "version: is 4");
  expect_error([](GgufTestWriter& w) { w.version = 3U << 24; }, "is big-endian");
  expect_error([](GgufTestWriter& w) { w.extra_tensors = 1ULL << 60; },
               "tensor count: is 1152921504606846978");
  expect_error([](GgufTestWriter& w) { w.extra_values = ~0ULL - 20; }, "metadata count: is ");
}

TEST(GgufHostileTest, DimensionsThatNoFileHolds) {
  const auto with_shape = [](std::vector<std::uint64_t> shape, std::uint32_t type = 0) {
    return [shape, type](GgufTestWriter& w) {
      w.tensors()[1].shape = shape;
      w.tensors()[1].type = type;
    };
  };
  expect_error(with_shape({0}), "\"output_norm.weight\": has a dimension of 0");
  expect_error(with_shape({32, 0}), "has a dimension of 0");
  expect_error(with_shape({(1ULL << 42) + 1, 1ULL << 22}), "are more than any file holds");
  expect_error(with_shape({(1ULL << 42) + 1}), "the file ends at");
  expect_error(with_shape({INT64_MAX}), "are more than any file holds");
  expect_error(with_shape({INT64_MAX, 2}), "are more than any file holds");
  expect_error(with_shape({UINT64_MAX}), "has a dimension of 18446744073709551615");
  expect_error(with_shape({1ULL << 32, 1ULL << 32}), "are more than any file holds");
  expect_error(with_shape({}), "has 0 dimensions, expected 1 to 4");
  expect_error(with_shape({1, 1, 1, 1, 1}), "has 5 dimensions, expected 1 to 4");
  expect_error(with_shape({33}, 8), "has rows of 33 elements, expected a multiple of 32 for Q8_0");
}

TEST(GgufHostileTest, TensorsThatLieWrong) {
  expect_error([](GgufTestWriter& w) { w.tensors()[1].offset_shift = 1 << 20; },
               "the file ends at");
  expect_error([](GgufTestWriter& w) { w.tensors()[1].offset_shift = -1024; },
               "tensor \"output_norm");
  expect_error([](GgufTestWriter& w) { w.tensors()[1].offset_shift = 1; },
               "expected a multiple of 32");
  expect_error([](GgufTestWriter& w) { w.tensors()[1].offset_shift = -32; },
               "tensor \"token_embd.weight\": overlaps tensor \"output_norm.weight\"");
  expect_error([](GgufTestWriter& w) { w.tensors()[1].name = "token_embd.weight"; },
               "is there twice");
  expect_error([](GgufTestWriter& w) { w.tensors()[1].name = ""; },
               "name of tensor 1: has 0 bytes");
  expect_error([](GgufTestWriter& w) { w.tensors()[0].name = "other"; },
               "tensor \"token_embd.weight\": is missing");
}

TEST(GgufHostileTest, TensorTypesAreNamed) {
  expect_error([](GgufTestWriter& w) { w.tensors()[1].type = 13; },
               "has the type Q5_K, expected one of F32");
  expect_error([](GgufTestWriter& w) { w.tensors()[1].type = 4; }, "has the type 4,");
  expect_error([](GgufTestWriter& w) { w.tensors()[1].type = 12345; }, "has the type 12345");
  EXPECT_EQ(GgufFile::from_memory("f",
                                  [] {
                                    auto writer = whole_model();
                                    writer.tensors()[1].type = 13;
                                    return writer.finish();
                                  }())
                .error()
                .code(),
            ErrorCode::kUnimplemented);
}

TEST(GgufHostileTest, AlignmentIsAPowerOfTwo) {
  for (const std::uint32_t value : {0U, 3U, 48U, 1U << 31}) {
    expect_error([&](GgufTestWriter& w) { w.set_u32("general.alignment", value); },
                 "expected a power of two");
  }
  expect_error([](GgufTestWriter& w) { w.set_string("general.alignment", "x"); },
               "\"general.alignment\": is of type string, expected u32");
  EXPECT_EQ(error_after([](GgufTestWriter& w) {
              w.alignment = 256;
              w.set_u32("general.alignment", 256);
            }),
            "");
}

TEST(GgufHostileTest, LengthsBeyondTheFile) {
  const auto raw64 = [](std::uint64_t value) { return GgufTestWriter::raw(value); };
  const auto raw32 = [](std::uint32_t value) { return GgufTestWriter::raw(value); };
  for (const std::uint64_t length : {1ULL << 20, 1ULL << 62, ~0ULL}) {
    expect_error([&](GgufTestWriter& w) { w.add_raw("s", GgufType::kString, raw64(length)); },
                 "metadata \"s\": ");
    for (const std::uint32_t element : {4U, 8U, 9U, 12U}) {
      expect_error(
          [&](GgufTestWriter& w) {
            w.add_raw("a", GgufType::kArray, raw32(element) + raw64(length));
          },
          "metadata \"a\": ");
    }
  }
  expect_error([&](GgufTestWriter& w) { w.add_raw("t", static_cast<GgufType>(13), "x"); },
               "metadata \"t\": has the value type 13");
  expect_error([&](GgufTestWriter& w) { w.add_raw("llama.block_count", GgufType::kU32, raw32(1)); },
               "metadata \"llama.block_count\": is there twice");
}

TEST(GgufHostileTest, ArraysInArraysHaveABottom) {
  const auto nested = [](int depth) {
    std::string bytes;
    for (int i = 0; i < depth; ++i) {
      bytes += GgufTestWriter::raw<std::uint32_t>(9) + GgufTestWriter::raw<std::uint64_t>(1);
    }
    return bytes + GgufTestWriter::raw<std::uint32_t>(0) + GgufTestWriter::raw<std::uint64_t>(0);
  };
  EXPECT_EQ(error_after([&](GgufTestWriter& w) { w.add_raw("n", GgufType::kArray, nested(3)); }),
            "");
  expect_error([&](GgufTestWriter& w) { w.add_raw("n", GgufType::kArray, nested(4)); },
               "at most 4 deep");
  expect_error([&](GgufTestWriter& w) { w.add_raw("n", GgufType::kArray, nested(100000)); },
               "metadata \"n\": arrays lie in arrays");
}

TEST(GgufHostileTest, ConfigurationsThatMakeNoModel) {
  expect_error([](GgufTestWriter& w) { w.erase("general.architecture"); },
               "\"general.architecture\": is missing, expected a string");
  expect_error([](GgufTestWriter& w) { w.set_string("general.architecture", "mamba"); },
               "is \"mamba\", expected one of llama, qwen2");
  expect_error([](GgufTestWriter& w) { w.erase("llama.block_count"); },
               "\"llama.block_count\": is missing, expected an integer");
  expect_error([](GgufTestWriter& w) { w.set_string("llama.block_count", "2"); },
               "\"llama.block_count\": is of type string, expected an integer");
  expect_error([](GgufTestWriter& w) { w.set_u32("llama.block_count", 0); },
               "is 0, expected 1 to 1024");
  expect_error([](GgufTestWriter& w) { w.set_u32("llama.block_count", 1000000); },
               "is 1000000, expected 1");
  expect_error([](GgufTestWriter& w) { w.set_u32("llama.attention.head_count", 5); },
               "is 5, expected a divisor of the embedding length 32");
  expect_error([](GgufTestWriter& w) { w.set_u32("llama.attention.head_count_kv", 3); },
               "is 3, expected a divisor of the 4 attention heads");
  expect_error([](GgufTestWriter& w) { w.set_u32("llama.rope.dimension_count", 7); },
               "expected an even");
  expect_error([](GgufTestWriter& w) { w.set_u32("llama.rope.dimension_count", 64); },
               "expected an even");
  expect_error([](GgufTestWriter& w) { w.set_u32("llama.attention.value_length", 4); },
               "key length 8");
  expect_error(
      [](GgufTestWriter& w) { w.set_f32("llama.attention.layer_norm_rms_epsilon", -1.0F); },
      "is -1, expected more than 0");
  expect_error([](GgufTestWriter& w) { w.set_string("llama.rope.scaling.type", "ntk"); },
               "is \"ntk\"");
  expect_error([](GgufTestWriter& w) { w.set_u32("llama.expert_count", 8); },
               "\"llama.expert_used_count\": is missing");
}

TEST(GgufHostileTest, VocabulariesThatDoNotFit) {
  expect_error([](GgufTestWriter& w) { w.erase("tokenizer.ggml.tokens"); },
               "expected an array of string");
  expect_error([](GgufTestWriter& w) { w.set_u32("tokenizer.ggml.tokens", 1); },
               "is of type u32, expected");
  expect_error(
      [](GgufTestWriter& w) {
        w.set_numbers<float>("tokenizer.ggml.tokens", GgufType::kF32, {1.0F});
      },
      "is of type array of f32, expected an array of string");
  expect_error(
      [](GgufTestWriter& w) {
        w.set_numbers<float>("tokenizer.ggml.scores", GgufType::kF32, {1.0F});
      },
      "has 1 elements, expected one of each of 2");
  expect_error([](GgufTestWriter& w) { w.set_u32("tokenizer.ggml.eos_token_id", 2); },
               "is 2, expected less than the 2 tokens");
}

TEST(GgufHostileTest, ForeignTextIsEscapedAndCut) {
  EXPECT_EQ(in_quotes("a\n\"\\\x1b\xff"), "\"a\\x0a\\\"\\\\\\x1b\\xff\"");
  EXPECT_EQ(in_quotes(std::string(100, 'a')), "\"" + std::string(64, 'a') + "\"...");
  expect_error(
      [](GgufTestWriter& w) {
        w.set_string("general.architecture", "x\n" + std::string(5000, 'y'));
      },
      "is \"x\\x0ayyy");
}

}  // namespace
}  // namespace paceline::model
