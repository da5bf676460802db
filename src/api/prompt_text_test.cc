#include "api/prompt_text.h"

#include <gmock/gmock.h>

namespace paceline::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PromptTextTest : public testing::Test {
 protected:
  std::vector<PromptText> read(const std::string& given) {
    const Json body = Json::parse(R"({"p": )" + given + "}");
    problem_.reset();
    Fields fields(body, problem_);
    return read_prompts(fields, "p", 2);
  }
  void expect_refused(const std::string& given, const char* message) {
    EXPECT_TRUE(read(given).empty()) << given;
    ASSERT_TRUE(problem_) << given;
    EXPECT_EQ(problem_->param, "p");
    EXPECT_THAT(problem_->message, HasSubstr(message)) << given;
  }
  std::optional<ApiError> problem_;
};

TEST_F(PromptTextTest, OneOrSeveralAsTextOrIds) {
  const PromptText text = std::string("a");
  const PromptText ids = TokenIds{1, 4294967295};
  EXPECT_THAT(read(R"("a")"), ElementsAre(text));
  EXPECT_THAT(read("[1, 4294967295]"), ElementsAre(ids));
  EXPECT_THAT(read(R"(["a", "a"])"), ElementsAre(text, text));
  EXPECT_THAT(read(R"(["a", [1, 4294967295]])"), ElementsAre(text, ids));
  EXPECT_FALSE(problem_);
}

TEST_F(PromptTextTest, AllElseIsRefusedByName) {
  for (const char* given : {"5", "{}", "[]", "[[]]", "[-1]", "[1.5]", "[4294967296]", "[1, \"a\"]",
                            "[\"a\", 1]", "[\"a\", []]", "[true]"}) {
    expect_refused(given, "expected a string, an array of strings, token ids");
  }
  expect_refused(R"(["a", "b", "c"])", "expected at most 2 texts, got 3");
  expect_refused("null", "p");
}

}  // namespace
}  // namespace paceline::api
