#include "worker/package_store.h"

#include <gmock/gmock.h>

#include "shard/package_testing.h"

namespace paceline::worker {
namespace {

using testing::HasSubstr;

class PackageStoreTest : public shard::PackageTestBase {
 protected:
  /// The package of the base, moved to root/NAME.
  shard::Manifest make_package_at(const char* name) const {
    const auto manifest = make_package();
    std::filesystem::create_directories((root_ / name).parent_path());
    std::filesystem::rename(package(), root_ / name);
    std::filesystem::create_directories(package());
    return manifest;
  }
};

TEST_F(PackageStoreTest, APackageIsFoundByItsDigest) {
  const auto manifest = make_package();
  const auto store = PackageStore::open({package()});
  ASSERT_TRUE(store) << store.error().message();
  ASSERT_EQ(store->packages().size(), 1U);
  const auto found = store->find(manifest.digest);
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)->directory, package());
  EXPECT_EQ((*found)->manifest, manifest);
  const auto missing = store->find("abcdef0123456789");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("no package with digest abcdef012345"));
  EXPECT_THAT(missing.error().message(), HasSubstr(manifest.digest.substr(0, 12)));
}

TEST_F(PackageStoreTest, ADirectoryOfPackagesGivesThemSorted) {
  make_package_at("shelf/b");
  make_package_at("shelf/a");
  std::filesystem::create_directories(root_ / "shelf/empty");
  const auto store = PackageStore::open({root_ / "shelf"});
  ASSERT_TRUE(store) << store.error().message();
  ASSERT_EQ(store->packages().size(), 2U);
  EXPECT_EQ(store->packages()[0].directory, root_ / "shelf/a");
  EXPECT_EQ(store->packages()[1].directory, root_ / "shelf/b");
}

TEST_F(PackageStoreTest, WhatIsNoPackageIsRefusedByName) {
  for (const char* name : {"package", "missing"}) {
    const auto store = PackageStore::open({root_ / name});
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code(), ErrorCode::kNotFound);
    EXPECT_THAT(store.error().message(), HasSubstr((root_ / name).string()));
  }
  make_package();
  write_text(package() / shard::kManifestFile, "{");
  const auto damaged = PackageStore::open({package()});
  ASSERT_FALSE(damaged);
  EXPECT_THAT(damaged.error().message(), HasSubstr(package().string()));
}

TEST_F(PackageStoreTest, AnEmptyStoreSaysHowToFillIt) {
  const auto found = PackageStore::open({})->find("00");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message(), HasSubstr("start it with --package"));
}

}  // namespace
}  // namespace paceline::worker
