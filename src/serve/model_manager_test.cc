#include "serve/model_manager.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <semaphore>

#include "serve/model_handlers.h"
#include "serve/serve_testing.h"

namespace paceline::serve {
namespace {

using testing::HasSubstr;

/// Routes over a manager whose models are nothing but names.
class ModelManagerTest : public testing::Test {
 protected:
  void SetUp() override { start(); }
  void TearDown() override {
    gate_.release(16);
    handlers_.reset();
    manager_.reset();
  }
  void start() {
    manager_ = std::make_unique<ModelManager>(
        registry_, ModelShelf(), [this](const ModelSource& source) { return load(source); });
    handlers_ = std::make_unique<ModelHandlers>(*manager_, registry_, std::chrono::seconds(30));
    ASSERT_TRUE(manager_->add({{"a", "a-too"}, "/models/a"}, true));
    ASSERT_TRUE(manager_->add({{"b"}, "/models/b"}, false));
  }

  Result<std::unique_ptr<ServedModel>> load(const ModelSource& source) {
    ++loads_;
    if (is_gated_) gate_.acquire();
    if (failure_) return fail(*failure_);
    loaded_ = source.package;
    ServedModel::Parts parts;
    parts.owner = std::shared_ptr<void>(nullptr, [this](void*) { ++ended_; });
    return std::make_unique<ServedModel>(std::move(parts));
  }
  std::shared_ptr<FakeExchange> post(const std::string& verb, const std::string& body) {
    auto exchange = std::make_shared<FakeExchange>(body);
    if (verb == "load") handlers_->load(exchange);
    if (verb == "unload") handlers_->unload(exchange);
    return exchange;
  }
  std::string code_of(const std::shared_ptr<FakeExchange>& exchange) {
    return exchange->wait().json()["error"]["code"];
  }

  ModelRegistry registry_;
  std::atomic<int> loads_ = 0;
  std::atomic<int> ended_ = 0;
  std::atomic<bool> is_gated_ = false;
  std::counting_semaphore<64> gate_{0};
  std::optional<Error> failure_;
  std::filesystem::path loaded_;
  std::unique_ptr<ModelManager> manager_;
  std::unique_ptr<ModelHandlers> handlers_;
};

TEST_F(ModelManagerTest, WhatIsNamedAtTheStartIsLoadedThen) {
  EXPECT_EQ(registry_.state("a"), ModelState::kLoading);
  EXPECT_EQ(registry_.state("b"), ModelState::kUnloaded);
  ASSERT_TRUE(manager_->load_all());
  EXPECT_EQ(registry_.find("a")->model, registry_.find("a-too")->model);
  EXPECT_EQ(registry_.find("b").error().code, "model_not_loaded");
  EXPECT_EQ(loads_, 1);
  EXPECT_TRUE(manager_->knows("b"));
  EXPECT_FALSE(manager_->knows("c"));
}

TEST_F(ModelManagerTest, TheFirstThatCannotBeLoadedIsNamed) {
  failure_ = Error(ErrorCode::kNotFound, "no such directory");
  EXPECT_EQ(manager_->load_all().error().message(), "a: no such directory");
  EXPECT_EQ(registry_.find("a").error().code, "model_not_loaded");
  EXPECT_FALSE(registry_.is_healthy());
}

TEST_F(ModelManagerTest, LoadAndUnload) {
  const auto loaded = post("load", R"({"model": "b"})");
  EXPECT_EQ(loaded->wait().status(), 200);
  EXPECT_EQ(loaded->json()["id"], "b");
  EXPECT_EQ(loaded->json()["status"], "ready");
  EXPECT_EQ(loaded_, "/models/b");
  EXPECT_EQ(post("load", R"({"model": "b"})")->wait().status(), 200) << "it is there";
  EXPECT_EQ(loads_, 1);
  const auto unloaded = post("unload", R"({"model": "b"})");
  EXPECT_EQ(unloaded->wait().json()["status"], "unloaded");
  EXPECT_EQ(ended_, 1) << "its memory is free before the answer";
  EXPECT_EQ(post("unload", R"({"model": "b"})")->wait().status(), 200) << "it is gone";
  EXPECT_EQ(post("load", R"({"model": "b"})")->wait().json()["status"], "ready") << "again";
}

TEST_F(ModelManagerTest, AllNamesOfAModelGoTogether) {
  ASSERT_TRUE(manager_->load_all());
  EXPECT_EQ(post("unload", R"({"model": "a-too"})")->wait().status(), 200);
  EXPECT_EQ(registry_.state("a"), ModelState::kUnloaded);
  EXPECT_EQ(registry_.state("a-too"), ModelState::kUnloaded);
  EXPECT_EQ(ended_, 1);
}

TEST_F(ModelManagerTest, WhatCannotBeDoneIsRefusedByName) {
  EXPECT_EQ(code_of(post("load", R"({"model": "c"})")), "model_not_found");
  EXPECT_EQ(code_of(post("unload", R"({"model": "c"})")), "model_not_found");
  EXPECT_EQ(code_of(post("load", R"({"model": "c", "path": "/etc"})")), "permission_denied");
  EXPECT_EQ(code_of(post("load", "{}")), "missing_required_parameter");
  EXPECT_EQ(code_of(post("unload", R"({"model": "a"})")), "already_exists") << "is being loaded";
  failure_ = Error(ErrorCode::kResourceExhausted, "layers 0-9 need 900 MiB, 100 MiB are free");
  const auto full = post("load", R"({"model": "b"})");
  EXPECT_EQ(full->wait().status(), 400);
  EXPECT_EQ(full->json()["error"]["code"], "insufficient_memory");
  EXPECT_THAT(full->json()["error"]["message"].get<std::string>(), HasSubstr("need 900 MiB"));
  EXPECT_EQ(full->head().headers.at("x-should-retry"), "false");
  EXPECT_EQ(registry_.state("b"), ModelState::kFailed);
  EXPECT_EQ(post("unload", R"({"model": "b"})")->wait().json()["status"], "unloaded");
}

TEST_F(ModelManagerTest, WhoAsksWhileItIsLoadedGetsTheSameAnswer) {
  is_gated_ = true;
  const auto first = post("load", R"({"model": "b"})");
  const auto second = post("load", R"({"model": "b"})");
  EXPECT_EQ(registry_.find("b").error().code, "loading");
  EXPECT_EQ(code_of(post("unload", R"({"model": "b"})")), "already_exists");
  for (int i = 0; i < 62; ++i) post("load", R"({"model": "b"})");
  EXPECT_EQ(post("load", R"({"model": "b"})")->wait().status(), 503) << "a loop of somebody's";
  gate_.release();
  EXPECT_EQ(first->wait().status(), 200);
  EXPECT_EQ(second->wait().status(), 200);
  EXPECT_EQ(loads_, 1);
}

TEST_F(ModelManagerTest, AModelInUseIsUnloadedWhenItsLastRequestLetsGo) {
  ASSERT_TRUE(manager_->load_all());
  auto used = registry_.find("a")->model;
  const auto unloaded = post("unload", R"({"model": "a"})");
  EXPECT_EQ(registry_.state("a"), ModelState::kUnloading);
  EXPECT_EQ(registry_.find("a").error().code, "model_not_loaded");
  EXPECT_EQ(code_of(post("load", R"({"model": "a"})")), "already_exists") << "its memory is taken";
  EXPECT_EQ(ended_, 0);
  used.reset();
  EXPECT_EQ(unloaded->wait().json()["status"], "unloaded");
  EXPECT_EQ(ended_, 1);
}

TEST_F(ModelManagerTest, AFailedChainIsUnloadedFirst) {
  ASSERT_TRUE(manager_->load_all());
  registry_.find("a")->model->note_failure(Error(ErrorCode::kUnavailable, "gone"));
  const auto refused = post("load", R"({"model": "a"})");
  EXPECT_EQ(refused->wait().status(), 400);
  EXPECT_THAT(refused->text(), HasSubstr("unload it first"));
  EXPECT_EQ(post("unload", R"({"model": "a"})")->wait().status(), 200);
  EXPECT_EQ(post("load", R"({"model": "a"})")->wait().json()["status"], "ready");
}

class UnloadOfServeTest : public ServeTest {};

/// Answers under way are whole where they end in time; after that they fail.
TEST_F(UnloadOfServeTest, AnswersUnderWayMayEndUntilTheDrainIsOver) {
  registry_->remove("test");
  handlers_.reset();
  auto manager = std::make_unique<ModelManager>(
      *registry_, ModelShelf(), [this](const ModelSource&) -> Result<std::unique_ptr<ServedModel>> {
        ServedModel::Parts parts;
        parts.facts = {0,  kContext, static_cast<std::uint64_t>(tokenizer_.vocabulary_size()),
                       {}, {kEnd},   0};
        parts.generator = generator_.get();
        parts.tokenizer = &tokenizer_;
        return std::make_unique<ServedModel>(std::move(parts));
      });
  handlers_ = std::make_unique<Handlers>(*registry_, clock_, HandlerOptions{});
  ModelHandlers routes(*manager, *registry_, std::chrono::seconds(30));
  ASSERT_TRUE(manager->add({{"test"}, "/models/test"}, true));
  ASSERT_TRUE(manager->load_all());
  chain_->hold(true);
  const auto whole = ask_completion(R"({"prompt": "Hi"})");
  const auto unloading = std::make_shared<FakeExchange>(R"({"model": "test"})");
  routes.unload(unloading);
  expect_error(ask_completion(R"({"prompt": "Hi"})"), 503, "model", "model_not_loaded");
  chain_->hold(false);
  EXPECT_EQ(whole->wait().status(), 200);
  EXPECT_EQ(unloading->wait().status(), 200);

  const auto loading = std::make_shared<FakeExchange>(R"({"model": "test"})");
  routes.load(loading);
  EXPECT_EQ(loading->wait().status(), 200);
  chain_->hold(true);
  const auto cut = ask_completion(R"({"prompt": "Hi"})");
  const auto now = std::make_shared<FakeExchange>(R"({"model": "test", "drain_seconds": 0.05})");
  routes.unload(now);
  EXPECT_EQ(cut->wait().status(), 503);
  EXPECT_EQ(now->wait().status(), 200);
  chain_->hold(false);
  handlers_.reset();
  manager.reset();
}

}  // namespace
}  // namespace paceline::serve
