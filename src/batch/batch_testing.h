// For tests of this folder: a directory that is removed, and lines of an input file.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "batch/batch_store.h"

namespace paceline::batch {

class BatchTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::temp_directory_path() /
                 fmt::format("paceline-batch-{}-{}", ::getpid(), test->name());
    std::filesystem::remove_all(directory_);
    reopen();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  /// As after the end of the process that had it open.
  void reopen(BatchStore::Options options = {}) {
    store_.reset();
    auto opened = BatchStore::open(directory_, std::move(options));
    ASSERT_TRUE(opened.has_value()) << opened.error().message();
    store_ = *std::move(opened);
  }

  static std::string line(const std::string& custom_id, const std::string& text = "x") {
    return fmt::format(
        R"({{"custom_id": "{}", "method": "POST", "url": "/v1/completions", "body": {{"prompt": "{}"}}}})",
        custom_id, text);
  }
  static std::string lines(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += line(fmt::format("id-{}", i)) + "\n";
    return text;
  }
  std::string create(const std::string& text, const std::string& tenant = "") {
    const auto read = read_lines(text, "/v1/completions");
    EXPECT_TRUE(read.has_value());
    BatchRequest request;
    request.tenant = tenant;
    request.endpoint = "/v1/completions";
    request.input_file_id = "file-1";
    request.created_at = 1000;
    request.expires_at = 2000;
    const auto batch = store_->create_batch(request, *read);
    EXPECT_TRUE(batch.has_value()) << batch.error().message();
    return batch ? (*batch)["id"].get<std::string>() : "";
  }
  api::Json batch(const std::string& id) { return store_->batch("", id).value(); }
  /// Of a result file, by its custom ids; each may be there once.
  std::map<std::string, api::Json> results(const api::Json& file) {
    std::map<std::string, api::Json> found;
    if (file.is_null()) return found;
    std::string text = store_->content("", file).value();
    EXPECT_EQ(static_cast<std::int64_t>(text.size()), store_->file("", file)->bytes);
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      const api::Json json = api::Json::parse(text.substr(0, end));
      const std::string id = json["custom_id"].is_null() ? "" : json["custom_id"];
      EXPECT_TRUE(found.emplace(id, json).second) << "twice: " << id;
      text.erase(0, end + 1);
    }
    EXPECT_EQ(text, "");
    return found;
  }

  std::filesystem::path directory_;
  std::unique_ptr<BatchStore> store_;
};

}  // namespace paceline::batch
