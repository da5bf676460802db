#include "cli/serve_flags.h"

#include <gmock/gmock.h>

#include <filesystem>

namespace paceline::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Flags of a command line.
ServeFlags parsed(const std::string& line) {
  ServeFlags flags;
  CLI::App app;
  flags.add_to(app);
  app.parse(line);
  return flags;
}

TEST(ServeFlagsTest, OnePackageIsCalledAsItsDirectory) {
  const auto name = [](const std::string& line) {
    return parsed(line).model_sources().value().front().name();
  };
  EXPECT_EQ(name("/models/smollm2"), "smollm2");
  EXPECT_EQ(name("/models/smollm2/"), "smollm2");
  EXPECT_EQ(name("-p models/smollm2"), "smollm2");
  EXPECT_EQ(name("--package models/x/../smollm2"), "smollm2");
  EXPECT_EQ(name("."), std::filesystem::current_path().filename().string());
}

TEST(ServeFlagsTest, SeveralHaveNamesOfTheirOwn) {
  const auto sources = parsed("a=/m/one org/b=/m/two=2 /m/three").model_sources().value();
  ASSERT_EQ(sources.size(), 3U);
  EXPECT_EQ(sources[0].name(), "a");
  EXPECT_EQ(sources[0].package, "/m/one");
  EXPECT_EQ(sources[1].name(), "org/b");
  EXPECT_EQ(sources[1].package, "/m/two=2");
  EXPECT_EQ(sources[2].name(), "three");
}

TEST(ServeFlagsTest, ADirectoryMayHaveAnEqualsSign) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "a=b";
  std::filesystem::create_directories(directory);
  const auto sources = parsed(directory.string()).model_sources().value();
  EXPECT_EQ(sources.front().name(), "a=b");
  EXPECT_EQ(sources.front().package, directory);
  std::filesystem::remove(directory);
}

TEST(ServeFlagsTest, ServedModelNameIsForOnePackage) {
  const auto one = parsed("/m/a --served-model-name x --served-model-name y").model_sources();
  EXPECT_THAT(one.value().front().names, ElementsAre("x", "y"));
  const auto two = parsed("a=/m/a b=/m/b --served-model-name x").model_sources();
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message(), HasSubstr("--served-model-name"));
  const auto bad = parsed("/m/a --served-model-name \"it's\"").model_sources();
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message(), HasSubstr("it's"));
  EXPECT_TRUE(parsed("").model_sources().value().empty());
}

TEST(ServeFlagsTest, FlagsTakeNoPackageForTheirOwn) {
  const ServeFlags flags =
      parsed("--served-model-name x --model-dir d --allowed-host h --cors-origin o /m/a");
  EXPECT_EQ(flags.model_sources().value().front().package, "/m/a");
  EXPECT_THAT(flags.names, ElementsAre("x"));
  EXPECT_THAT(flags.model_directories, ElementsAre("d"));
  EXPECT_THAT(parsed("--model-dir d --model-dir e").model_directories, ElementsAre("d", "e"));
}

TEST(ServeFlagsTest, TheCurlLineWorksAsItIs) {
  const std::string url = "http://127.0.0.1:8000";
  EXPECT_EQ(how_to_ask(parsed("/m/a"), url, "a", true),
            "curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' "
            "-d '{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'");
  EXPECT_THAT(how_to_ask(parsed("/m/a"), url, "a", false), HasSubstr("/v1/completions "));
  EXPECT_THAT(how_to_ask(parsed("/m/a --api-keys k"), url, "a", true),
              HasSubstr(" -H \"Authorization: Bearer $PACELINE_API_KEY\" "));
  const ServeFlags tls =
      parsed("/m/a --tls-cert \"my cert.pem\" --tls-key k --allowed-host pc.lan --allowed-host x");
  const std::string line = how_to_ask(tls, "https://0.0.0.0:8443", "a", true);
  EXPECT_THAT(line, HasSubstr("curl https://pc.lan:8443/v1/chat"));
  EXPECT_THAT(line, HasSubstr(" --cacert 'my cert.pem' "));
  EXPECT_EQ(base_url(parsed("/m/a --allowed-host pc.lan"), url), url) << "without TLS";
}

}  // namespace
}  // namespace paceline::cli
