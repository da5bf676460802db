#include "batch/batch_handlers.h"

#include <gmock/gmock.h>

#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>

#include "batch/batch_testing.h"
#include "http/local_exchange.h"

namespace paceline::batch {
namespace {

using testing::HasSubstr;

class FakeExchange final : public http::LocalExchange {
 public:
  explicit FakeExchange(http::Request request) : LocalExchange(std::move(request)) {}
  void respond(http::Response response) override { response_ = std::move(response); }
  void begin_stream(http::Response) override {}
  bool write(std::string_view) override { return false; }
  void end() override {}
  void abort() override {}

  http::Response response_;
};

class BatchHandlersTest : public BatchTest {
 protected:
  using Handle = void (BatchHandlers::*)(http::Exchange&);

  http::Response call(Handle handle, http::Request request) {
    BatchHandlers handlers(*store_, [this] { ++wakes_; }, {[] { return std::int64_t{1000}; }});
    FakeExchange exchange(std::move(request));
    (handlers.*handle)(exchange);
    return exchange.response_;
  }
  api::Json json(Handle handle, http::Request request, int status = 200) {
    const auto response = call(handle, std::move(request));
    EXPECT_EQ(response.status, status) << response.body;
    return api::Json::parse(response.body);
  }
  static http::Request about(const std::string& id) {
    http::Request request;
    request.path_values["id"] = id;
    return request;
  }
  static http::Request body(const std::string& text) {
    http::Request request;
    request.body = text;
    return request;
  }
  static std::string part(const std::string& disposition, const std::string& content) {
    return "--b\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + content + "\r\n";
  }
  static http::Request form(const std::string& parts) {
    http::Request request;
    request.headers["content-type"] = "multipart/form-data; boundary=b";
    request.body = parts + "--b--\r\n";
    return request;
  }
  std::string upload(const std::string& content) {
    return json(&BatchHandlers::upload, form(part("name=purpose", "batch") +
                                             part("name=file; filename=in.jsonl", content)))["id"];
  }
  api::Json create_from(const std::string& file, int status = 200) {
    return json(&BatchHandlers::create_batch,
                body(fmt::format(R"({{"input_file_id": "{}", "endpoint": "/v1/completions",
                                     "completion_window": "24h", "metadata": {{"a": "b"}}}})",
                                 file)),
                status);
  }
  void expect_error(const api::Json& json, const std::string& param) {
    EXPECT_EQ(json["error"]["param"], param) << json;
  }

  int wakes_ = 0;
};

TEST_F(BatchHandlersTest, AFileFromUploadToDeletion) {
  const std::string id = upload("one\n");
  const auto file = json(&BatchHandlers::show_file, about(id));
  EXPECT_EQ(file["object"], "file");
  EXPECT_EQ(file["bytes"], 4);
  EXPECT_EQ(file["filename"], "in.jsonl");
  EXPECT_EQ(file["purpose"], "batch");
  EXPECT_EQ(file["expires_at"], 1000 + 30 * 86400);
  EXPECT_EQ(call(&BatchHandlers::give_content, about(id)).body, "one\n");
  EXPECT_EQ(json(&BatchHandlers::list_files, {})["data"][0], file);
  EXPECT_EQ(json(&BatchHandlers::delete_file, about(id))["deleted"], true);
  EXPECT_EQ(json(&BatchHandlers::show_file, about(id), 404)["error"]["code"], "not_found");
  EXPECT_EQ(json(&BatchHandlers::list_files, {})["data"], api::Json::array());
}

TEST_F(BatchHandlersTest, UploadsThatAreRefused) {
  const auto refused = [this](const std::string& parts, const std::string& param) {
    expect_error(json(&BatchHandlers::upload, form(parts), 400), param);
  };
  const std::string purpose = part("name=purpose", "batch");
  const std::string file = part("name=file", "x");
  refused(file, "purpose");
  refused(purpose, "file");
  refused(part("name=purpose", "vision") + file, "purpose");
  refused(purpose + part("name=file", ""), "file");
  refused(purpose + file + part("name=\"expires_after[seconds]\"", "60"), "expires_after.seconds");
  refused(purpose + file + part("name=\"expires_after[anchor]\"", "now"), "expires_after.anchor");
  json(&BatchHandlers::upload, body("x"), 400);
}

TEST_F(BatchHandlersTest, ABatch) {
  const auto batch = create_from(upload(lines(2)));
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(batch["object"], "batch");
  EXPECT_EQ(batch["status"], "in_progress");
  EXPECT_EQ(batch["endpoint"], "/v1/completions");
  EXPECT_EQ(batch["expires_at"], 1000 + 86400);
  EXPECT_EQ(batch["metadata"]["a"], "b");
  EXPECT_EQ(batch["request_counts"]["total"], 2);
  EXPECT_EQ(json(&BatchHandlers::show_batch, about(batch["id"])), batch);
  EXPECT_EQ(json(&BatchHandlers::list_batches, {})["data"][0], batch);
  EXPECT_EQ(json(&BatchHandlers::cancel_batch, about(batch["id"]))["status"], "cancelling");
  EXPECT_EQ(wakes_, 2);
  json(&BatchHandlers::show_batch, about("batch_x"), 404);
}

TEST_F(BatchHandlersTest, BatchesThatAreRefused) {
  expect_error(create_from("file-x", 404), "input_file_id");
  expect_error(create_from(upload("\n\n"), 400), "input_file_id");
  const auto refused = [this](const std::string& members, const std::string& param) {
    expect_error(json(&BatchHandlers::create_batch, body("{" + members + "}"), 400), param);
  };
  refused("", "input_file_id");
  refused(R"("input_file_id": "x", "endpoint": "/v1/moderations", "completion_window": "24h")",
          "endpoint");
  refused(R"("input_file_id": "x", "endpoint": "/v1/completions", "completion_window": "1h")",
          "completion_window");
  refused(R"("input_file_id": "x", "endpoint": "/v1/completions", "completion_window": "24h",
             "metadata": {"a": 1})",
          "metadata");
  EXPECT_EQ(wakes_, 0);
}

TEST_F(BatchHandlersTest, ListsHavePages) {
  std::vector<std::string> ids;
  const std::string file = upload(lines(1));
  for (int i = 0; i < 3; ++i) ids.push_back(create_from(file)["id"]);
  http::Request request;
  request.query = {{"limit", "2"}};
  const auto first = json(&BatchHandlers::list_batches, request);
  EXPECT_EQ(first["has_more"], true);
  EXPECT_EQ(first["data"].size(), 2U);
  EXPECT_EQ(first["first_id"], ids[2]);
  request.query["after"] = first["last_id"];
  const auto second = json(&BatchHandlers::list_batches, request);
  EXPECT_EQ(second["has_more"], false);
  EXPECT_EQ(second["last_id"], ids[0]);
  request.query["limit"] = "0";
  expect_error(json(&BatchHandlers::list_batches, request, 400), "limit");
  http::Request other;
  other.query = {{"purpose", "batch_output"}};
  EXPECT_EQ(json(&BatchHandlers::list_files, other)["data"].size(), 0U);
}

TEST_F(BatchHandlersTest, RoutesAndWhatBodiesMayBe) {
  BatchHandlers handlers(*store_, [] {}, {[] { return std::int64_t{1}; }, 77});
  const auto routes = handlers.routes();
  EXPECT_EQ(routes.size(), 9U);
  EXPECT_EQ(routes[0].policy.content_type, "multipart/form-data");
  EXPECT_EQ(routes[0].policy.max_body_bytes, 77U);
  EXPECT_TRUE(std::all_of(routes.begin(), routes.end(),
                          [](const auto& route) { return route.policy.needs_key; }));
}

TEST_F(BatchHandlersTest, AllRoutesAreDescribed) {
  std::ifstream file(PACELINE_SOURCE_DIR "/docs/openapi.json");
  const api::Json described = api::Json::parse(file);
  BatchHandlers handlers(*store_, [] {}, {[] { return std::int64_t{1000}; }});
  for (const auto& route : handlers.routes()) {
    const auto& paths = described["paths"];
    ASSERT_TRUE(paths.contains(route.pattern)) << route.pattern;
    std::string method = route.method;
    for (char& letter : method) letter = static_cast<char>(std::tolower(letter));
    EXPECT_TRUE(paths[route.pattern].contains(method)) << route.method << " " << route.pattern;
  }
}

}  // namespace
}  // namespace paceline::batch
