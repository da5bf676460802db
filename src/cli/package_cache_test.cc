#include "cli/package_cache.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PackageCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("cache-" + std::to_string(::getpid()));
    fs::create_directories(root_ / "hf");
    write("m.gguf", "abc");
    write("hf/model.safetensors", "abc");
  }
  void TearDown() override {
    fs::remove_all(root_);
    ::unsetenv("XDG_CACHE_HOME");
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(root_ / name) << text;
  }
  fs::path package(const std::string& source, const std::string& options = "") const {
    return cached_package("/cache", root_ / source, options).value();
  }
  fs::path root_;
};

TEST_F(PackageCacheTest, TheSameSourceHasTheSamePackage) {
  const fs::path first = package("m.gguf");
  EXPECT_EQ(first.parent_path(), "/cache");
  EXPECT_THAT(first.filename().string(), testing::StartsWith("m-"));
  EXPECT_EQ(package("m.gguf"), first);
  EXPECT_EQ(package("hf/../m.gguf"), first) << "however it is named";
  EXPECT_EQ(package("hf/"), package("hf"));
  EXPECT_THAT(package("hf").filename().string(), testing::StartsWith("hf-"));
}

TEST_F(PackageCacheTest, AnotherOneWhereAnythingIsAnother) {
  const fs::path first = package("m.gguf");
  EXPECT_NE(package("m.gguf", "int4"), first);
  write("m.gguf", "abcd");
  EXPECT_NE(package("m.gguf"), first) << "another size";
  const fs::path second = package("m.gguf");
  fs::last_write_time(root_ / "m.gguf", fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_NE(package("m.gguf"), second) << "another time";
  const fs::path directory = package("hf");
  write("hf/config.json", "{}");
  EXPECT_NE(package("hf"), directory);
}

TEST_F(PackageCacheTest, WhatIsNotThereIsNamed) {
  const auto missing = cached_package("/cache", root_ / "none.gguf", "");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("none.gguf"));
  EXPECT_FALSE(is_package(root_ / "hf"));
  write("hf/paceline.json", "{}");
  EXPECT_TRUE(is_package(root_ / "hf"));
}

TEST_F(PackageCacheTest, TheCacheIsWhereTheSpecificationSays) {
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(default_package_cache().value(), "/x/paceline/packages");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_NE(default_package_cache().value_or("").string().substr(0, 8), "relative");
}

}  // namespace
}  // namespace paceline::cli
