#include "serve/model_shelf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace paceline::serve {
namespace {

namespace fs = std::filesystem;

class ModelShelfTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("shelf-" + std::to_string(::getpid()));
    fs::remove_all(root_);
    make_package("models/a");
    make_package("models/org/b");
    make_package("outside");
    make_package("models-too");
    fs::create_directory_symlink(root_ / "outside", root_ / "models/link");
    fs::create_directory(root_ / "models/empty");
  }
  void TearDown() override { fs::remove_all(root_); }

  void make_package(const std::string& name) const {
    fs::create_directories(root_ / name);
    std::ofstream(root_ / name / "paceline.json") << "{}";
  }
  ErrorCode refused(const std::string& name, const std::string& path = "") {
    const auto found = shelf_.find_or_add(name, path);
    EXPECT_FALSE(found) << name << " " << path;
    return found ? ErrorCode::kUnknown : found.error().code();
  }

  fs::path root_;
  ModelShelf shelf_ = ModelShelf({root()});
  fs::path root() const {
    return fs::path(testing::TempDir()) / ("shelf-" + std::to_string(::getpid())) / "models";
  }
};

TEST_F(ModelShelfTest, WhatLiesInTheDirectoryHasItsNameThere) {
  EXPECT_EQ(shelf_.find("a"), nullptr) << "until it is asked for";
  const auto a = shelf_.find_or_add("a", "");
  ASSERT_TRUE(a);
  EXPECT_EQ((*a)->package.filename(), "a");
  EXPECT_EQ(shelf_.find("a"), *a);
  EXPECT_EQ(shelf_.find_or_add("a", "").value(), *a) << "the same";
  EXPECT_TRUE(shelf_.find_or_add("org/b", ""));
  const auto other = shelf_.find_or_add("other", "a");
  ASSERT_TRUE(other) << "a name of its own for a path, which may be relative";
  EXPECT_EQ((*other)->package, (*a)->package);
  EXPECT_TRUE(shelf_.find_or_add("third", (root() / "org/b").string()));
}

TEST_F(ModelShelfTest, NothingOutsideTheDirectoriesIsLoadedOrToldOf) {
  EXPECT_EQ(refused("x", (root_ / "outside").string()), ErrorCode::kPermissionDenied);
  EXPECT_EQ(refused("x", (root_ / "nothing").string()), ErrorCode::kPermissionDenied)
      << "the same, whether it is there or not";
  EXPECT_EQ(refused("x", "../outside"), ErrorCode::kPermissionDenied);
  EXPECT_EQ(refused("x", "a/../../outside"), ErrorCode::kPermissionDenied);
  EXPECT_EQ(refused("x", "link"), ErrorCode::kPermissionDenied) << "a link that leads out";
  EXPECT_EQ(refused("x", (root_ / "models-too").string()), ErrorCode::kPermissionDenied)
      << "begins as the directory's name does";
  EXPECT_EQ(refused("x", root().string()), ErrorCode::kPermissionDenied);
  EXPECT_EQ(refused("x", "empty"), ErrorCode::kNotFound);
  EXPECT_EQ(refused("../outside"), ErrorCode::kNotFound);
  EXPECT_EQ(refused("nothing"), ErrorCode::kNotFound);
  shelf_ = ModelShelf();
  EXPECT_EQ(refused("x", (root() / "a").string()), ErrorCode::kPermissionDenied);
  EXPECT_EQ(refused("a"), ErrorCode::kNotFound);
}

TEST_F(ModelShelfTest, TheOperatorsOwnMayLieAnywhereAndKeepTheirNames) {
  const fs::path outside = root_ / "outside";
  const auto source = shelf_.add({{"m", "n"}, outside});
  ASSERT_TRUE(source);
  EXPECT_EQ(shelf_.find("n"), *source);
  EXPECT_EQ(shelf_.find_or_add("n", "").value(), *source);
  EXPECT_EQ(shelf_.find_or_add("m", outside.string()).value(), *source)
      << "its own path is no other";
  EXPECT_EQ(refused("m", "a"), ErrorCode::kAlreadyExists);
  EXPECT_EQ(shelf_.add({{"o", "m"}, outside}).error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(shelf_.sources().size(), 1U);
}

TEST_F(ModelShelfTest, NamesAreBounded) {
  for (std::size_t i = 0; i < ModelShelf::kMaxModels; ++i) {
    ASSERT_TRUE(shelf_.find_or_add("m" + std::to_string(i), "a"));
  }
  EXPECT_EQ(refused("one-more", "a"), ErrorCode::kOutOfRange);
  EXPECT_TRUE(shelf_.find_or_add("m5", ""));
}

}  // namespace
}  // namespace paceline::serve
