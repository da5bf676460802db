#include "cli/package_files.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "text/test_vocabulary.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PackageFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    package_ = fs::temp_directory_path() / fmt::format("paceline-package-files-{}", ::getpid());
    fs::remove_all(package_);
    fs::create_directories(package_);
  }
  void TearDown() override { fs::remove_all(package_); }

  void write(const char* name, const std::string& text) const {
    std::ofstream(package_ / name, std::ios::binary) << text;
  }
  template <typename T>
  void expect_error(const Result<T>& result, ErrorCode code, const char* file,
                    const char* message) const {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), code) << result.error().message();
    EXPECT_THAT(result.error().message(),
                HasSubstr((*file == '\0' ? package_ : package_ / file).string()));
    EXPECT_THAT(result.error().message(), HasSubstr(message));
  }
  std::string rendered(const ChatFormat& format) const {
    const text::ChatMessage message = {"user", "hello"};
    return format.chat_template
        .render({&message, 1}, {true, format.bos_token, format.eos_token, {}})
        .value();
  }

  fs::path package_;
};

TEST_F(PackageFilesTest, TheTokenizerIsLoadedOrItsAbsenceTold) {
  expect_error(load_tokenizer(package_), ErrorCode::kNotFound, "", "has no tokenizer.json");
  write("tokenizer.json", "{}");
  expect_error(load_tokenizer(package_), ErrorCode::kInvalidArgument, "tokenizer.json", "");
  write("tokenizer.json", text::tokenizer_json_from(text::test_vocabulary("bpe")).value());
  const auto tokenizer = load_tokenizer(package_);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ(tokenizer->vocabulary_size(), 524);
}

TEST_F(PackageFilesTest, EndTokensAreANumberOrAList) {
  EXPECT_THAT(*read_end_tokens(package_), IsEmpty()) << "without the files";
  write("config.json", R"({"eos_token_id": 7})");
  EXPECT_THAT(*read_end_tokens(package_), ElementsAre(7));
  write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_THAT(*read_end_tokens(package_), ElementsAre(7)) << "of config.json where it has none";
  write("generation_config.json", R"({"eos_token_id": [5, 2, 5]})");
  EXPECT_THAT(*read_end_tokens(package_), ElementsAre(2, 5));
}

TEST_F(PackageFilesTest, WrongEndTokensAreRefusedByName) {
  for (const char* bad : {R"("2")", "2.5", R"([1, "2"])", "{}", "[[1]]", "true"}) {
    write("generation_config.json", fmt::format(R"({{"eos_token_id": {}}})", bad));
    expect_error(read_end_tokens(package_), ErrorCode::kInvalidArgument, "generation_config.json",
                 "eos_token_id: expected an integer");
  }
  for (const char* bad : {"", "[1]", "{\"a\":", "\xff"}) {
    write("generation_config.json", bad);
    expect_error(read_end_tokens(package_), ErrorCode::kInvalidArgument, "generation_config.json",
                 "expected a JSON object");
  }
}

TEST_F(PackageFilesTest, TheChatTemplateIsAFileOrAField) {
  expect_error(load_chat_format(package_), ErrorCode::kNotFound, "", "has no chat template");
  write("tokenizer_config.json", R"({
    "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false},
    "chat_template": "{{ bos_token }}field {{ messages[0].content }}{{ eos_token }}"})");
  auto format = load_chat_format(package_);
  ASSERT_TRUE(format) << format.error().message();
  EXPECT_EQ(rendered(*format), "<s>field hello</s>");
  write("chat_template.jinja", "file {{ messages[0].content }}");
  format = load_chat_format(package_);
  ASSERT_TRUE(format) << format.error().message();
  EXPECT_EQ(rendered(*format), "file hello") << "the file counts before the field";
}

TEST_F(PackageFilesTest, ABrokenChatTemplateNamesItsFile) {
  write("tokenizer_config.json", R"({"chat_template": "{% if %}", "bos_token": 3})");
  expect_error(load_chat_format(package_), ErrorCode::kInvalidArgument, "tokenizer_config.json",
               "");
  write("chat_template.jinja", "{{ messages");
  expect_error(load_chat_format(package_), ErrorCode::kInvalidArgument, "chat_template.jinja", "");
  write("tokenizer_config.json", "no JSON");
  expect_error(load_chat_format(package_), ErrorCode::kInvalidArgument, "tokenizer_config.json",
               "expected a JSON object");
}

TEST_F(PackageFilesTest, AnUnreadableChatTemplateIsNotTakenForNone) {
  write("tokenizer_config.json", R"({"chat_template": "field"})");
  fs::create_directories(package_ / "chat_template.jinja");
  expect_error(load_chat_format(package_), ErrorCode::kInvalidArgument, "chat_template.jinja",
               "not a regular file");
}

TEST_F(PackageFilesTest, TokenizersAreComparedTokenByToken) {
  const text::Tokenizer tokenizer = text::test_tokenizer("bpe");
  EXPECT_TRUE(check_same_tokens(tokenizer, text::test_tokenizer("bpe")));
  auto vocabulary = text::test_vocabulary("bpe");
  std::swap(vocabulary.tokens[300], vocabulary.tokens[301]);
  const Status other = check_same_tokens(text::tokenizer_of(vocabulary), tokenizer);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.error().message(), HasSubstr("token 300 is"));
}

}  // namespace
}  // namespace paceline::cli
