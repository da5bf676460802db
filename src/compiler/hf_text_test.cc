#include "compiler/hf_text.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "model/safetensors_testing.h"
#include "model/sentencepiece_testing.h"
#include "text/chat_template.h"
#include "text/test_vocabulary.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class HfTextTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    source_.write(name, content);
  }
  void write_tokenizer() const {
    write("tokenizer.json", text::tokenizer_json_from(text::test_vocabulary("bpe")).value());
  }
  void write_pieces() const {
    write("tokenizer.model", model::write_sentencepiece(text::test_vocabulary("sentencepiece")));
  }
  Result<HfText> run(const std::string& architecture = "llama") const {
    return write_hf_text(source_.path(), architecture, target_.path());
  }
  std::string written(const std::string& name) const {
    return system::read_text_file(target_.path() / name, 1U << 24U).value_or("(none)");
  }
  text::Tokenizer tokenizer() const {
    return text::Tokenizer::load(target_.path() / "tokenizer.json").value();
  }
  void expect_refused(ErrorCode code, const std::string& file, const std::string& message) const {
    const auto result = run();
    ASSERT_FALSE(result) << message;
    EXPECT_EQ(result.error().code(), code) << result.error().message();
    const auto named = file.empty() ? source_.path() : source_.path() / file;
    EXPECT_THAT(result.error().message(), StartsWith(named.string()));
    EXPECT_THAT(result.error().message(), HasSubstr(message));
    EXPECT_EQ(result.error().message().find('\n'), std::string::npos);
  }

  model::TestDirectory source_;
  model::TestDirectory target_;
};

TEST_F(HfTextTest, FilesAreTakenOver) {
  write_tokenizer();
  write("tokenizer_config.json",
        R"({"eos_token": {"content": "<|im_end|>", "lstrip": false}, "model_max_length": 8192})");
  write("special_tokens_map.json", R"({"bos_token": "<|im_start|>", "eos_token": "other"})");
  write("chat_template.jinja", "{{ messages[0].content }}");
  const auto result = run();
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->eos_id, 2);
  EXPECT_EQ(written("tokenizer.json"),
            text::tokenizer_json_from(text::test_vocabulary("bpe")).value());
  const auto config = json::parse(written("tokenizer_config.json"));
  EXPECT_EQ(config["model_max_length"], 8192);
  EXPECT_EQ(config["eos_token"]["content"], "<|im_end|>");
  EXPECT_EQ(config["bos_token"], "<|im_start|>") << "from special_tokens_map.json";
  EXPECT_EQ(written("chat_template.jinja"), "{{ messages[0].content }}");
  EXPECT_EQ(json::parse(written("special_tokens_map.json"))["eos_token"], "other");
}

TEST_F(HfTextTest, ATokenizerAloneIsEnough) {
  write_tokenizer();
  const auto result = run();
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->eos_id, std::nullopt);
  EXPECT_EQ(written("chat_template.jinja"), "(none)");
  EXPECT_EQ(written("special_tokens_map.json"), "(none)");
}

TEST_F(HfTextTest, TheChatTemplateIsFoundWhereverItStands) {
  write_tokenizer();
  const auto found = [&] {
    const auto result = run();
    EXPECT_TRUE(result) << result.error().message();
    const std::string source = written("chat_template.jinja");
    EXPECT_EQ(json::parse(written("tokenizer_config.json"))["chat_template"], source);
    return source;
  };
  write("tokenizer_config.json", R"({"chat_template": "in config"})");
  EXPECT_EQ(found(), "in config");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tools"},
                                    {"name": "default", "template": "the default"}]})");
  EXPECT_EQ(found(), "the default");
  write("chat_template.json", R"({"chat_template": "in its own JSON"})");
  EXPECT_EQ(found(), "in its own JSON");
  write("chat_template.jinja", "in its own file");
  EXPECT_EQ(found(), "in its own file");
}

TEST_F(HfTextTest, SentencePieceBecomesATokenizerJson) {
  write_pieces();
  write("tokenizer_config.json",
        R"({"add_bos_token": true, "eos_token": "</s>", "added_tokens_decoder": {
            "0": {"content": "<unk>", "special": true}, "1": {"content": "<s>", "special": true},
            "568": {"content": "<|end|>", "special": true}, "569": {"content": "<think>"}}})");
  const auto result = run();
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->eos_id, 2);
  auto vocabulary = text::test_vocabulary("sentencepiece");
  ASSERT_EQ(vocabulary.tokens.size(), 568U);
  const auto plain = text::tokenizer_of(vocabulary);
  const text::Tokenizer made = tokenizer();
  const std::string text = "The riders change places \xF0\x9F\x98\x80";
  EXPECT_EQ(made.encode(text, true).value(), plain.encode(text, true).value());
  EXPECT_EQ(made.encode("<|end|><think>", false).value(), (text::Ids{568, 569}));
  EXPECT_TRUE(made.is_special(568));
  EXPECT_FALSE(made.is_special(569));
}

TEST_F(HfTextTest, TheConfigurationSaysWhetherBosIsAdded) {
  write_pieces();
  for (const bool add : {true, false}) {
    write("tokenizer_config.json", fmt::format(R"({{"add_bos_token": {}}})", add));
    ASSERT_TRUE(run());
    EXPECT_EQ(tokenizer().encode("a", true)->front() == 1, add);
  }
}

TEST_F(HfTextTest, TheArchitectureStandsForRulesThatNoFileSays) {
  write_pieces();
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"568": {"content": "<|end|>", "special": true}}})");
  const auto ids = [&](const char* architecture) {
    EXPECT_TRUE(run(architecture));
    return tokenizer().encode("<|end|>\n", false).value();
  };
  EXPECT_EQ(ids("phi3"), text::Ids{568}) << "takes the line break along";
  EXPECT_NE(ids("llama"), text::Ids{568});
}

TEST_F(HfTextTest, ADirectoryWithoutATokenizerIsToldWhatToDo) {
  write("vocab.json", "{}");
  expect_refused(ErrorCode::kNotFound, "",
                 "has no tokenizer.json and no tokenizer.model; get it from where the model was");
}

TEST_F(HfTextTest, BadTokenizersAreNamed) {
  write("tokenizer.json", "{\"model\": 3}");
  expect_refused(ErrorCode::kInvalidArgument, "tokenizer.json", "no tokenizer.json: ");
  auto huge = json::parse(text::tokenizer_json_from(text::test_vocabulary("bpe")).value());
  huge["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(5000, 'b')}};
  write("tokenizer.json", huge.dump());
  expect_refused(ErrorCode::kInvalidArgument, "tokenizer.json",
                 "normalizer: can make a text 5000 times longer, at most 1000 are allowed");
  fs::remove(source_.path() / "tokenizer.json");
  write("tokenizer.model", "\x0a\x7f");
  expect_refused(ErrorCode::kDataLoss, "tokenizer.model", "longer than the message");
}

TEST_F(HfTextTest, BadFieldsAreNamed) {
  write_pieces();
  const std::pair<const char*, const char*> cases[] = {
      {"[1]", "expected a JSON object"},
      {"{\"a\": ", "tokenizer_config.json: "},
      {R"({"eos_token": 3})", "eos_token: expected a string, or an object"},
      {R"({"add_bos_token": "yes"})", "add_bos_token: expected true or false"},
      {R"({"chat_template": 7})", "chat_template: expected a string or a list"},
      {R"({"chat_template": [{"name": "x"}]})", "chat_template: expected objects with"},
      {R"({"chat_template": [{"name": "x", "template": "y"}]})", "expected one named \"default\""},
      {R"({"chat_template": "{% if %}"})", "chat_template: "},
      {R"({"added_tokens_decoder": []})", "added_tokens_decoder: expected an object"},
      {R"({"added_tokens_decoder": {"x": {}}})", "added_tokens_decoder: \"x\": expected a token's"},
      {R"({"added_tokens_decoder": {"568": {}}})", "added_tokens_decoder: \"568\": expected"},
      {R"({"added_tokens_decoder": {"1": {"content": "<x>"}}})",
       "added_tokens_decoder: 1: expected \"<s>\" as in tokenizer.model"},
      {R"({"added_tokens_decoder": {"600": {"content": "<x>"}}})",
       "added_tokens_decoder: 600: expected 568 to come first"},
  };
  for (const auto& [content, message] : cases) {
    write("tokenizer_config.json", content);
    expect_refused(ErrorCode::kInvalidArgument, "tokenizer_config.json", message);
  }
}

}  // namespace
}  // namespace paceline::compiler
