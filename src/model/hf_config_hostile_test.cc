// Configurations that are damaged, contradictory or of models that are not built.
#include <gtest/gtest.h>

#include <random>

#include "model/hf_config_testing.h"

namespace paceline::model {
namespace {

using Json = nlohmann::json;

TEST(HfConfigHostileTest, SizesThatMakeNoModel) {
  const Json base = small_config("LlamaForCausalLM", "llama");
  for (const char* field : {"hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "vocab_size", "max_position_embeddings"}) {
    const auto patch = [&](const char* value) {
      return std::string("{\"") + field + "\": " + value + "}";
    };
    expect_refused(base, patch("null"), std::string("field \"") + field + "\": is missing");
    expect_refused(base, patch("0"), "is 0, expected an integer of 1 to");
    expect_refused(base, patch("-4"), "is -4, expected an integer of 1 to");
    expect_refused(base, patch("64.0"), "is 64.0, expected an integer of 1 to");
    expect_refused(base, patch("\"64\""), "is \"64\", expected an integer of 1 to");
    expect_refused(base, patch("[64]"), "is an array of 1, expected an integer of 1 to");
    expect_refused(base, patch("18446744073709551615"), "expected an integer of 1 to");
    expect_refused(base, patch("1e30"), "expected an integer of 1 to");
  }
}

TEST(HfConfigHostileTest, FieldsOfAWrongTypeOrInContradiction) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"num_key_value_heads": 3})",
       "\"num_key_value_heads\": is 3, expected a divisor of the 4"},
      {R"({"num_key_value_heads": 8})", "is 8, expected a divisor of the 4 attention heads"},
      {R"({"hidden_size": 66})", "is 4, expected a divisor of the hidden size 66"},
      {R"({"head_dim": 0})", "\"head_dim\": is 0"},
      {R"({"rms_norm_eps": 0})", "\"rms_norm_eps\": is 0, expected a number above 0"},
      {R"({"rms_norm_eps": "1e-5"})", "\"rms_norm_eps\": is \"1e-5\""},
      {R"({"hidden_act": "relu"})", "\"hidden_act\": is \"relu\", expected silu or gelu"},
      {R"({"hidden_act": "gelu"})", "\"hidden_act\": is \"gelu\""},
      {R"({"hidden_act": 1})", "\"hidden_act\": is 1, expected a string"},
      {R"({"attention_bias": 1})", "\"attention_bias\": is 1, expected true or false"},
      {R"({"tie_word_embeddings": "yes"})", "\"tie_word_embeddings\": is \"yes\""},
      {R"({"model_type": "mistral"})", "\"model_type\": is \"mistral\", expected llama"},
      {R"({"model_type": 5})", "\"model_type\": is 5, expected a string"},
      {R"({"architectures": null})", "\"architectures\": is missing"},
      {R"({"architectures": []})", "\"architectures\": is an array of 0"},
      {R"({"architectures": "LlamaForCausalLM"})", "expected an array of strings"},
      {R"({"architectures": ["MambaForCausalLM"]})",
       "is \"MambaForCausalLM\", expected one of LlamaForCausalLM, MistralForCausalLM"},
      {R"({"eos_token_id": 100})", "\"eos_token_id\": is 100, expected integers of 0 to 99"},
      {R"({"eos_token_id": [1, "2"]})", "\"eos_token_id\": is an array of 2"},
      {R"({"bos_token_id": -2})", "\"bos_token_id\": is -2"},
      {R"({"layer_types": ["sliding_attention", "full_attention", "full_attention",
           "full_attention"]})",
       "\"layer_types\": is an array of 4, expected what the fields of the sliding window say"},
      {R"({"layer_types": ["full_attention"]})", "expected one type of each of 4 layers"},
      {R"({"layer_types": ["linear_attention"]})", "expected full_attention and sliding"},
  };
  for (const auto& [patch, expected] : cases) {
    expect_refused(small_config("LlamaForCausalLM", "llama"), patch, expected);
  }
}

struct Case {
  const char* architecture;
  const char* model_type;
  const char* patch;
  const char* expected;
};

TEST(HfConfigHostileTest, FieldsOfSingleArchitectures) {
  const std::vector<Case> cases = {
      {"MistralForCausalLM", "mistral", R"({"num_key_value_heads": null})",
       "\"num_key_value_heads\": is missing, expected an integer"},
      {"MistralForCausalLM", "mistral", R"({"attention_bias": true})",
       "expected false, as MistralForCausalLM has it"},
      {"Qwen2ForCausalLM", "qwen2", R"({"mlp_bias": true})", "expected false, as Qwen2"},
      {"Qwen2ForCausalLM", "qwen2",
       R"({"layer_types": ["full_attention", "full_attention", "full_attention",
           "sliding_attention"]})",
       "expected what the fields of the sliding window say"},
      {"Qwen2ForCausalLM", "qwen2",
       R"({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": -1})",
       "\"max_window_layers\": is -1"},
      {"Gemma2ForCausalLM", "gemma2", R"({"sliding_window": 0})", "\"sliding_window\": is 0"},
      {"Gemma2ForCausalLM", "gemma2", R"({"query_pre_attn_scalar": 0})",
       "\"query_pre_attn_scalar\": is 0"},
      {"Gemma3ForCausalLM", "gemma3_text", R"({"use_bidirectional_attention": true})",
       "\"use_bidirectional_attention\": is true, expected false"},
      {"Gemma3ForConditionalGeneration", "gemma3", "{}", "\"text_config\": is missing"},
      {"Gemma3ForConditionalGeneration", "gemma3", R"({"text_config": {"hidden_size": 64}})",
       "\"text_config.num_hidden_layers\": is missing"},
      {"SmolLM3ForCausalLM", "smollm3", R"({"no_rope_layers": [1, 1]})",
       "expected one item of each of 4 layers"},
      {"SmolLM3ForCausalLM", "smollm3", R"({"no_rope_layers": [1, 1, 1, 2]})",
       "expected integers of 0 to 1"},
      {"SmolLM3ForCausalLM", "smollm3", R"({"no_rope_layer_interval": 0})",
       "\"no_rope_layer_interval\": is 0"},
      {"GraniteForCausalLM", "granite", R"({"logits_scaling": 0})", "\"logits_scaling\": is 0"},
      {"MixtralForCausalLM", "mixtral", "{}", "\"num_local_experts\": is missing"},
      {"MixtralForCausalLM", "mixtral", R"({"num_local_experts": 4, "num_experts_per_tok": 5})",
       "\"num_experts_per_tok\": is 5, expected an integer of 1 to 4"},
      {"Qwen3MoeForCausalLM", "qwen3_moe",
       R"({"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
           "mlp_only_layers": [4]})",
       "\"mlp_only_layers\": is an array of 1, expected integers of 0 to 3"},
      {"Qwen3MoeForCausalLM", "qwen3_moe",
       R"({"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
           "decoder_sparse_step": 0})",
       "\"decoder_sparse_step\": is 0"},
  };
  for (const Case& c : cases) {
    expect_refused(small_config(c.architecture, c.model_type), c.patch, c.expected);
  }
}

TEST(HfConfigHostileTest, UnknownThingsAreUnimplementedRatherThanWrong) {
  const Json base = small_config("LlamaForCausalLM", "llama");
  for (const char* patch :
       {R"({"architectures": ["MambaForCausalLM"]})", R"({"hidden_act": "relu"})",
        R"({"rope_scaling": {"type": "mrope"}})", R"({"partial_rotary_factor": 0.5})",
        R"({"quantization_config": {"quant_method": "gptq"}})"}) {
    const auto config = config_of(base, patch);
    ASSERT_FALSE(config) << patch;
    EXPECT_EQ(config.error().code(), ErrorCode::kUnimplemented) << patch;
  }
}

TEST(HfConfigHostileTest, TextThatIsNoObject) {
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"", "is not JSON"},
      {"{", "is not JSON: syntax error at byte 2"},
      {"[]", "is an array of 0, expected an object"},
      {std::string(1 << 20, '['), "is nested more than 16 deep"},
      {R"({"a": 1, "a": 2})", "has the key \"a\" twice"},
      {"{\"a\": [0" +
           [] {
             std::string zeros;
             for (int i = 0; i < 300000; ++i) zeros += ",0";
             return zeros;
           }() +
           "]}",
       "holds more than 200000 values"},
  };
  for (const auto& [text, expected] : cases) {
    const auto config = parse_hf_config(text, "");
    ASSERT_FALSE(config);
    EXPECT_NE(config.error().message().find(expected), std::string::npos)
        << config.error().message();
  }
}

TEST(HfConfigHostileTest, ChangedBytesNeverCrash) {
  Json document = small_config("Phi3ForCausalLM", "phi3");
  document["rope_scaling"] = Json::parse(
      R"({"type": "longrope", "short_factor": [1,1,1,1,1,1,1,1], "long_factor": [2,2,2,2,2,2,2,2]})");
  const std::string whole = document.dump();
  ASSERT_TRUE(parse_hf_config(whole, ""));
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = whole;
    for (int i = 0; i < 2; ++i) text[random() % text.size()] = static_cast<char>(random());
    const auto config = parse_hf_config(text, text);
    if (config) continue;
    ++refused;
    EXPECT_EQ(config.error().message().find('\n'), std::string::npos);
  }
  EXPECT_GT(refused, 2500);
}

}  // namespace
}  // namespace paceline::model
