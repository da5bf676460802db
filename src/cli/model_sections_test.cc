#include "cli/model_sections.h"

#include <gmock/gmock.h>

namespace paceline::cli {
namespace {

using testing::HasSubstr;

Result<std::vector<ModelSection>> sections_of(const std::string& text) {
  const auto entries = parse_settings(text, "f.toml");
  EXPECT_TRUE(entries);
  return model_sections(*entries);
}

TEST(ModelSectionsTest, EachHasAPackageAndAChainOfItsOwn) {
  const auto sections = sections_of(
      "[serve]\nstages = 1\n[model.a]\npackage = '/m/a'\nstages = 2\n"
      "[model.'org/b']\npackage = '/m/b'\nload = false\nctx = 512\nmax-waiting = 3\n");
  ASSERT_TRUE(sections) << sections.error().message();
  ASSERT_EQ(sections->size(), 2U);
  EXPECT_EQ(sections->at(0).name, "a");
  EXPECT_EQ(sections->at(0).package, "/m/a");
  EXPECT_TRUE(sections->at(0).load);
  EXPECT_EQ(sections->at(1).name, "org/b");
  EXPECT_FALSE(sections->at(1).load);
  ChainFlags base;
  base.threads = 7;
  base.workers = "h:1,h:2";
  const auto a = chain_of(*sections, "a", base);
  EXPECT_EQ(a->stages, 2U);
  EXPECT_EQ(a->workers, "") << "its stages are here";
  EXPECT_EQ(a->threads, 7U) << "as all have it";
  const auto b = chain_of(*sections, "org/b", base);
  EXPECT_EQ(b->context_tokens, 512U);
  EXPECT_EQ(b->max_waiting, 3U);
  EXPECT_EQ(b->workers, "h:1,h:2");
  EXPECT_EQ(chain_of(*sections, "c", base)->workers, "h:1,h:2");
}

TEST(ModelSectionsTest, WhatIsWrongIsNamedWithFileAndLine) {
  const auto refusal = [](const std::string& text) {
    const auto sections = sections_of(text);
    return sections ? "" : sections.error().message();
  };
  EXPECT_THAT(refusal("[model.a]\npackages = 1\n"),
              HasSubstr("f.toml:2: packages: [model.a] has no such entry"));
  EXPECT_THAT(refusal("[model.a]\nport = 1\n"), HasSubstr("f.toml:2: port"));
  EXPECT_THAT(refusal("[model.a]\nstages = 0\n"), HasSubstr("f.toml:2: --stages"));
  EXPECT_THAT(refusal("[model]\npackage = 'x'\n"), HasSubstr("f.toml:2: package: expected it in"));
  EXPECT_THAT(refusal("[model.\"it's\"]\npackage = 'x'\n"), HasSubstr("f.toml:2: "));
  EXPECT_THAT(refusal("[model.a]\nstages = 2\nworkers = 'h:1'\n"), HasSubstr("excludes workers"));
}

}  // namespace
}  // namespace paceline::cli
