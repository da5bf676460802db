#include "cli/server_client.h"

#include <gmock/gmock.h>

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;

http::Response response(int status, const std::string& body) {
  http::Response made;
  made.status = status;
  made.body = body;
  return made;
}

TEST(ServerClientTest, RefusalsAreSentences) {
  const Error users = refusal(response(404, R"({"error": {"message": "no model 'x'"}})"));
  EXPECT_EQ(users.message(), "the server: no model 'x'");
  EXPECT_EQ(users.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(response(503, "<html>")).message(), "the server: status 503");
  EXPECT_EQ(refusal(response(503, "")).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(refusal(response(400, R"({"error": "plain"})")).message(), "the server: plain");
  EXPECT_EQ(refusal(response(400, R"({"error": {"message": 7}})")).message(),
            "the server: an error without a message");
  EXPECT_EQ(refusal(response(400, R"({"error": {"message": "a\u001b[2Jb"}})")).message(),
            "the server: a?[2Jb")
      << "nothing that a terminal obeys";
}

TEST(ServerClientTest, ForeignJsonMayHaveAnything) {
  EXPECT_EQ(error_message(ordered_json::parse("[1]")), "");
  EXPECT_EQ(error_message(ordered_json::parse(R"({"error": null})")), "");
  EXPECT_EQ(text_of(ordered_json::parse(R"({"a": 5})"), "a"), "");
  EXPECT_EQ(text_of(ordered_json::parse("5"), "a"), "");
  EXPECT_EQ(text_of(ordered_json::parse(R"({"a": "b"})"), "a"), "b");
  EXPECT_EQ(printable(std::string(300, 'x')).size(), 200U);
}

TEST(ServerClientTest, AUrlThatIsNoneIsNamed) {
  ServerFlags flags;
  flags.url = "ftp://x";
  EXPECT_THAT(flags.client().error().message(), testing::HasSubstr("ftp://x"));
  flags.url = "http://h:1/v1/";
  EXPECT_TRUE(flags.client());
  EXPECT_TRUE(flags.root_client());
}

}  // namespace
}  // namespace paceline::cli
