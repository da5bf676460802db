#include <gmock/gmock.h>

#include <filesystem>

#include "batch/batch_testing.h"

namespace paceline::batch {
namespace {

using testing::HasSubstr;

class BatchStoreTest : public BatchTest {
 protected:
  std::string add_file(const std::string& content, std::int64_t expires_at = 5000,
                       const std::string& tenant = "") {
    FileFacts facts;
    facts.filename = "in.jsonl";
    facts.created_at = 1000;
    facts.expires_at = expires_at;
    const auto file = store_->add_file(tenant, facts, content);
    EXPECT_TRUE(file.has_value()) << file.error().message();
    return file ? file->id : "";
  }
  void finish(const WaitingLine& line, bool is_success = true) {
    EXPECT_TRUE(store_->record(
        {{line.key, is_success, answer_line("r", line.custom_id, is_success ? 200 : 400, "{}")}}));
  }
};

TEST_F(BatchStoreTest, FilesSurvive) {
  const std::string id = add_file("one\ntwo\n");
  reopen();
  EXPECT_EQ(store_->content("", id).value(), "one\ntwo\n");
  const auto facts = store_->file("", id);
  EXPECT_EQ(facts->bytes, 8);
  EXPECT_EQ(facts->filename, "in.jsonl");
  EXPECT_EQ(facts->expires_at, 5000);
  EXPECT_TRUE(store_->delete_file("", id));
  EXPECT_EQ(store_->file("", id).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(store_->delete_file("", id).error().code(), ErrorCode::kNotFound);
}

TEST_F(BatchStoreTest, TenantsDoNotSeeEachOther) {
  const std::string id = add_file("x", 5000, "ann");
  EXPECT_FALSE(store_->file("bob", id).has_value());
  EXPECT_FALSE(store_->content("bob", id).has_value());
  EXPECT_FALSE(store_->delete_file("bob", id).has_value());
  EXPECT_TRUE(store_->files("bob", {})->empty());
  const std::string batch = create(lines(1), "ann");
  EXPECT_FALSE(store_->batch("bob", batch).has_value());
  EXPECT_FALSE(store_->cancel("bob", batch, 1).has_value());
  EXPECT_TRUE(store_->batches("bob", {})->empty());
  EXPECT_EQ(store_->batches("ann", {})->size(), 1U);
}

TEST_F(BatchStoreTest, Pages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(add_file("x"));
  const auto first = store_->files("", {"", 2});
  EXPECT_EQ(first->at(0).id, ids[4]);
  const auto second = store_->files("", {first->at(1).id, 2});
  EXPECT_EQ(second->at(0).id, ids[2]);
  EXPECT_EQ(store_->files("", {"", 2, true})->at(0).id, ids[0]);
  EXPECT_FALSE(store_->files("", {"file-other", 2}).has_value());
}

TEST_F(BatchStoreTest, ABatchAddsUpTheTokensOfItsLines) {
  const std::string id = create(lines(3));
  EXPECT_EQ(batch(id)["usage"]["total_tokens"], 0);
  const auto waiting = store_->waiting(1500, 10);
  const auto done = [](const WaitingLine& line, std::int64_t tokens) {
    return FinishedLine{line.key, true, {"{}", {tokens, 1, 2, 0}}};
  };
  ASSERT_TRUE(store_->record({done(waiting->at(0), 10), done(waiting->at(1), 20)}));
  reopen();
  // A second result of a line is none.
  ASSERT_TRUE(store_->record({done(waiting->at(1), 500), done(waiting->at(2), 30)}));
  const auto usage = batch(id)["usage"];
  EXPECT_EQ(usage["input_tokens"], 60);
  EXPECT_EQ(usage["input_tokens_details"]["cached_tokens"], 3);
  EXPECT_EQ(usage["output_tokens"], 6);
  EXPECT_EQ(usage["total_tokens"], 66);
  ASSERT_TRUE(store_->settle(1500, {}));
  EXPECT_EQ(batch(id)["status"], "completed");
  EXPECT_EQ(batch(id)["usage"], usage);
}

TEST_F(BatchStoreTest, TheStoreIsBounded) {
  BatchStore::Options options;
  options.max_bytes = 10;
  reopen(options);
  const std::string id = add_file("12345678");
  EXPECT_EQ(store_->add_file("", {}, "123").error().code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(store_->delete_file("", id));
  EXPECT_TRUE(store_->add_file("", {}, "123").has_value());
}

TEST_F(BatchStoreTest, FilesExpire) {
  const std::string early = add_file("x", 1500);
  const std::string late = add_file("y", 2500);
  EXPECT_TRUE(store_->delete_expired(2000));
  EXPECT_FALSE(store_->file("", early).has_value());
  EXPECT_TRUE(store_->file("", late).has_value());
}

TEST_F(BatchStoreTest, AnotherProcessIsRefused) {
  const auto other = BatchStore::open(directory_, {});
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message(), HasSubstr("in use by another server"));
}

TEST_F(BatchStoreTest, AFileThatIsNoStoreIsRefused) {
  store_.reset();
  std::filesystem::remove_all(directory_);
  std::filesystem::create_directories(directory_ / "batches.sqlite");
  EXPECT_FALSE(BatchStore::open(directory_, {}).has_value());
}

TEST_F(BatchStoreTest, ABatchFromItsLinesToItsFiles) {
  const std::string id = create(lines(3) + "{broken\n");
  EXPECT_EQ(batch(id)["status"], "in_progress");
  EXPECT_EQ(batch(id)["request_counts"].dump(), R"({"total":4,"completed":0,"failed":1})");
  auto waiting = store_->waiting(1000, 10).value();
  ASSERT_EQ(waiting.size(), 3U);
  EXPECT_EQ(waiting[0].custom_id, "id-0");
  EXPECT_EQ(waiting[0].endpoint, "/v1/completions");
  finish(waiting[1]);
  finish(waiting[1], false);  // the first result stays
  reopen();
  waiting = store_->waiting(1000, 10).value();
  ASSERT_EQ(waiting.size(), 2U) << "no more than was not recorded";
  finish(waiting[0]);
  finish(waiting[1], false);
  EXPECT_TRUE(store_->settle(1100, {waiting[0].key.batch}));
  EXPECT_EQ(batch(id)["status"], "in_progress") << "something is in flight";
  EXPECT_TRUE(store_->settle(1100, {}));
  const auto done = batch(id);
  EXPECT_EQ(done["status"], "completed");
  EXPECT_EQ(done["completed_at"], 1100);
  EXPECT_EQ(results(done["output_file_id"]).size(), 2U);
  const auto errors = results(done["error_file_id"]);
  EXPECT_EQ(errors.size(), 2U);
  EXPECT_EQ(errors.at("")["error"]["code"], "invalid_request");
  EXPECT_EQ(errors.at("id-2")["response"]["status_code"], 400);
  EXPECT_TRUE(store_->settle(1200, {}));
  EXPECT_EQ(batch(id)["completed_at"], 1100) << "it ends once";
}

TEST_F(BatchStoreTest, ACancelledBatchHasALineForEachRequest) {
  const std::string id = create(lines(3));
  finish(store_->waiting(1000, 1)->at(0));
  EXPECT_EQ(store_->cancel("", id, 1100).value()["status"], "cancelling");
  EXPECT_TRUE(store_->waiting(1000, 10)->empty());
  EXPECT_TRUE(store_->settle(1200, {}));
  const auto done = batch(id);
  EXPECT_EQ(done["status"], "cancelled");
  EXPECT_EQ(done["cancelling_at"], 1100);
  EXPECT_EQ(done["cancelled_at"], 1200);
  EXPECT_EQ(results(done["output_file_id"]).size(), 1U);
  EXPECT_EQ(results(done["error_file_id"]).at("id-1")["error"]["code"], "batch_cancelled");
  EXPECT_EQ(store_->cancel("", id, 1300).error().code(), ErrorCode::kFailedPrecondition);
}

TEST_F(BatchStoreTest, ABatchThatTakesTooLongExpires) {
  const std::string id = create(lines(2));
  EXPECT_TRUE(store_->waiting(2000, 10)->empty());
  EXPECT_TRUE(store_->settle(2000, {}));
  const auto done = batch(id);
  EXPECT_EQ(done["status"], "expired");
  EXPECT_TRUE(done["output_file_id"].is_null());
  EXPECT_EQ(results(done["error_file_id"]).size(), 2U);
}

TEST_F(BatchStoreTest, ResultFilesCanBeDeleted) {
  const std::string id = create(lines(1));
  finish(store_->waiting(1000, 1)->at(0));
  EXPECT_TRUE(store_->settle(1100, {}));
  const std::string file = batch(id)["output_file_id"];
  EXPECT_EQ(store_->file("", file)->purpose, "batch_output");
  EXPECT_TRUE(store_->delete_expired(1100 + 30 * 86400));
  EXPECT_FALSE(store_->content("", file).has_value());
  EXPECT_EQ(batch(id)["request_counts"]["completed"], 1) << "the batch itself stays";
}

}  // namespace
}  // namespace paceline::batch
