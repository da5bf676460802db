#include "serve/model_registry.h"

#include <gtest/gtest.h>

namespace paceline::serve {
namespace {

std::shared_ptr<ServedModel> model() { return std::make_shared<ServedModel>(ServedModel::Parts{}); }

TEST(ModelRegistryTest, TheFirstNameIsTheDefault) {
  ModelRegistry registry;
  EXPECT_EQ(registry.find("").error().status, 404);
  EXPECT_FALSE(registry.is_healthy());
  registry.announce("a");
  registry.announce("b");
  EXPECT_EQ(registry.find("").error().status, 503);
  EXPECT_EQ(registry.cards().at(0).status, "loading");
  const auto shared = model();
  registry.set_ready("b", shared);
  registry.set_ready("a", shared);
  EXPECT_EQ(registry.find("")->name, "a");
  EXPECT_EQ(registry.find("b")->name, "b");
  EXPECT_EQ(registry.find("b")->model, shared);
  EXPECT_EQ(registry.find("c").error().code, "model_not_found");
  EXPECT_EQ(registry.cards().size(), 2U);
  EXPECT_EQ(registry.models().size(), 1U) << "two names of one";
  EXPECT_TRUE(registry.is_healthy());
}

TEST(ModelRegistryTest, EachModelIsListedOnceWithItsNames) {
  ModelRegistry registry;
  EXPECT_TRUE(registry.listed().empty());
  const auto shared = model();
  registry.set_ready("a", shared);
  registry.announce("later");
  registry.set_ready("b", shared);
  registry.announce("last");
  const auto listed = registry.listed();
  ASSERT_EQ(listed.size(), 3U) << "those that are not ready are no model of two names";
  EXPECT_EQ(listed[0].names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(listed[0].model, shared);
  EXPECT_EQ(listed[1].names, std::vector<std::string>{"later"});
  EXPECT_EQ(listed[1].model, nullptr);
  EXPECT_EQ(listed[2].names, std::vector<std::string>{"last"});
}

TEST(ModelRegistryTest, AModelLivesAsLongAsItIsUsed) {
  ModelRegistry registry;
  registry.set_ready("a", model());
  const auto used = registry.find("a")->model;
  registry.remove("a");
  registry.remove("a");
  EXPECT_EQ(registry.find("a").error().status, 404);
  EXPECT_EQ(used.use_count(), 1);
}

TEST(ModelRegistryTest, OneThatIsNotLoadedIsListedAndRefusedByName) {
  ModelRegistry registry;
  registry.set_ready("a", model());
  registry.set_state("b", ModelState::kUnloaded);
  EXPECT_TRUE(registry.is_healthy()) << "b is not missed";
  EXPECT_EQ(registry.find("b").error().code, "model_not_loaded");
  EXPECT_EQ(registry.find("b").error().status, 503);
  EXPECT_EQ(registry.cards().at(1).status, "unloaded");
  registry.set_state("b", ModelState::kLoading);
  EXPECT_TRUE(registry.is_healthy()) << "a answers";
  EXPECT_EQ(registry.find("b").error().code, "loading");
  registry.set_state("a", ModelState::kFailed);
  EXPECT_EQ(registry.state("a"), ModelState::kReady) << "it has a model";
  const auto taken = registry.take("a");
  EXPECT_NE(taken, nullptr);
  EXPECT_EQ(registry.take("a"), nullptr);
  EXPECT_EQ(registry.state("a"), ModelState::kUnloading);
  EXPECT_EQ(registry.find("").error().code, "model_not_loaded") << "the default stays the default";
  EXPECT_FALSE(registry.is_healthy()) << "none is ready";
  EXPECT_EQ(registry.state("c"), std::nullopt);
}

TEST(ModelRegistryTest, AFailedChainIsNotOffered) {
  ModelRegistry registry;
  registry.set_ready("a", model());
  registry.find("a")->model->note_failure(Error(ErrorCode::kUnavailable, "gone"));
  registry.announce("a");
  EXPECT_EQ(registry.find("a").error().status, 503);
  EXPECT_FALSE(registry.is_healthy());
}

}  // namespace
}  // namespace paceline::serve
