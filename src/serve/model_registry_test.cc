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
  EXPECT_TRUE(registry.cards().empty());
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
