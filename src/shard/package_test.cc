#include "shard/package.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "shard/data_file.h"
#include "shard/package_testing.h"
#include "system/files.h"

namespace paceline::shard {
namespace {

namespace fs = std::filesystem;

class PackageTest : public PackageTestBase {
 protected:
  void flip_byte(const fs::path& path, std::uint64_t offset) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }
  void punch_hole(std::uint64_t offset, std::uint64_t bytes) const {
    const int file = ::open((package() / kWeightsFile).c_str(), O_WRONLY);
    ASSERT_EQ(::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                          static_cast<off_t>(offset), static_cast<off_t>(bytes)),
              0);
    ::close(file);
  }
  static std::uint64_t stored_bytes(const fs::path& path) {
    struct stat info = {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  static VerifyOptions only(LayerRange range) {
    VerifyOptions options;
    options.layers = range;
    return options;
  }
};

TEST_F(PackageTest, AWrittenManifestReadsBackWithTheFilesDigest) {
  const Manifest made = make_package();
  const auto read = read_manifest(package());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, made);
  const auto text = system::read_text_file(package() / kManifestFile, kMaxManifestBytes);
  EXPECT_EQ(read->digest, to_hex(sha256(*text)));
}

TEST_F(PackageTest, OneFileIsVerifiedWithoutTheOthers) {
  const Manifest manifest = make_package();
  flip_byte(package() / kGraphFile, 1);
  EXPECT_TRUE(verify_file(package(), manifest, "config.json"));
  const auto damaged = verify_file(package(), manifest, kGraphFile);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code(), ErrorCode::kDataLoss);
  EXPECT_EQ(verify_file(package(), manifest, "other.json").error().code(), ErrorCode::kNotFound);
}

TEST_F(PackageTest, DirectoriesThatAreNoPackage) {
  EXPECT_EQ(read_manifest(root_ / "none").error().message(),
            (root_ / "none").string() + ": no such directory");
  EXPECT_EQ(read_manifest(package()).error().message(),
            package().string() + ": is not a package: it has no paceline.json");
  write_text(package() / kManifestFile, "{");
  EXPECT_EQ(read_manifest(package()).error().message(),
            package().string() + ": paceline.json: is not JSON: syntax error at byte 2");
}

TEST_F(PackageTest, AnIntactPackageVerifiesOnAnyNumberOfThreads) {
  const Manifest manifest = make_package();
  for (const std::uint32_t threads : {0U, 1U, 4U}) {
    VerifyOptions options;
    options.threads = threads;
    std::uint64_t done = 0;
    std::uint64_t total = 0;
    options.progress = [&](std::uint64_t now, std::uint64_t all) {
      EXPECT_GT(now, done);
      done = now;
      total = all;
    };
    const auto status = verify(package(), manifest, options);
    EXPECT_TRUE(status) << status.error().message();
    EXPECT_EQ(done, total);
    EXPECT_EQ(total, 23 * kMiB + 1000 + 6 + 2);
  }
}

TEST_F(PackageTest, VerifyingEndsWhereItIsNotWantedAnyMore) {
  const Manifest manifest = make_package();
  VerifyOptions options;
  std::uint64_t done = 0;
  options.progress = [&](std::uint64_t now, std::uint64_t) { done = now; };
  options.is_wanted = [&] { return done < 3; };
  const auto status = verify(package(), manifest, options);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(done, 8U) << "both files, and no extent";
}

TEST_F(PackageTest, ALongFileIsNotHashedToItsEndWhereItIsNotWantedAnyMore) {
  const Manifest manifest = make_package();
  const DataFile weights = DataFile::open(package() / kWeightsFile).value();
  int asked = 0;
  const auto hash = weights.hash(0, weights.size(), nullptr, [&] { return ++asked < 4; });
  ASSERT_FALSE(hash);
  EXPECT_EQ(hash.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(asked, 4) << "of 23 pieces";
}

TEST_F(PackageTest, AChangedByteIsFoundByNameAndOffset) {
  const Manifest manifest = make_package();
  flip_byte(package() / kWeightsFile, 20 * kMiB + 777);
  flip_byte(package() / kWeightsFile, 21 * kMiB + 1);
  VerifyOptions options;
  options.threads = 3;
  const auto status = verify(package(), manifest, options);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kDataLoss);
  EXPECT_EQ(
      status.error().message(),
      (package() / kWeightsFile).string() +
          ": extent 4 is damaged: 1048576 bytes at offset 20971520 do not have the SHA-256 of "
          "paceline.json");
  // A stage that does not read it is well served.
  EXPECT_TRUE(verify(package(), manifest, only({0, 2})));
  EXPECT_FALSE(verify(package(), manifest, only({2, 4})));
}

TEST_F(PackageTest, PaddingBelongsToNobody) {
  const Manifest manifest = make_package();
  flip_byte(package() / kWeightsFile, 22 * kMiB + 1000);
  EXPECT_TRUE(verify(package(), manifest));
  flip_byte(package() / kWeightsFile, 22 * kMiB + 999);
  EXPECT_FALSE(verify(package(), manifest));
}

TEST_F(PackageTest, AChangedOrMissingFileIsNamed) {
  const Manifest manifest = make_package();
  write_text(package() / "config.json", "[]");
  const auto damaged = verify(package(), manifest);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code(), ErrorCode::kDataLoss);
  EXPECT_TRUE(
      damaged.error().message().starts_with((package() / "config.json").string() + ": is damaged"));
  write_text(package() / "config.json", "[1]");
  EXPECT_EQ(verify(package(), manifest).error().message(),
            (package() / "config.json").string() + ": has 3 bytes, expected 2 by paceline.json");
  fs::remove(package() / "config.json");
  EXPECT_EQ(check_lengths(package(), manifest).error().code(), ErrorCode::kNotFound);
  ASSERT_EQ(::mkfifo((package() / "config.json").c_str(), 0600), 0);
  EXPECT_EQ(verify(package(), manifest).error().message(),
            (package() / "config.json").string() + ": is not a regular file");
}

TEST_F(PackageTest, TruncatedWeightsAreRefusedBeforeHashing) {
  const Manifest manifest = make_package();
  fs::resize_file(package() / kWeightsFile, kWeightBytes - 1);
  EXPECT_EQ(check_lengths(package(), manifest).error().message(),
            (package() / kWeightsFile).string() +
                ": has 25165823 bytes, expected 25165824 by paceline.json");
}

TEST_F(PackageTest, AHoleWhereDataShouldBeIsMissing) {
  const Manifest manifest = make_package();
  punch_hole(19 * kMiB + 64 * 1024, 128 * 1024);
  const auto status = verify(package(), manifest);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(
      status.error().message(),
      (package() / kWeightsFile).string() +
          ": extent 3 is missing: 1048576 bytes at offset 19922944 are not all in this package");
}

TEST_F(PackageTest, ARangeIsCheckedAgainstTheModel) {
  const Manifest manifest = make_package();
  EXPECT_EQ(verify(package(), manifest, only({2, 5})).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(copy_range(package(), root_ / "copy", {3, 3}).error().code(),
            ErrorCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(root_ / "copy"));
}

TEST_F(PackageTest, ACopiedRangeVerifiesAndHoldsNothingElse) {
  const Manifest manifest = make_package();
  const fs::path copy = root_ / "copy";
  const auto made = copy_range(package(), copy, {1, 3});
  ASSERT_TRUE(made) << made.error().message();
  const auto sparse = read_manifest(copy);
  ASSERT_TRUE(sparse);
  EXPECT_EQ(sparse->digest, manifest.digest);
  EXPECT_EQ(fs::file_size(copy / kWeightsFile), kWeightBytes);
  EXPECT_LT(stored_bytes(copy / kWeightsFile), 3 * kMiB);
  EXPECT_TRUE(verify(copy, *sparse, only({1, 3})));
  EXPECT_TRUE(verify(copy, *sparse, only({2, 3})));
  const auto too_much = verify(copy, *sparse, only({0, 3}));
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(copy_range(package(), copy, {0, 1}).error().code(), ErrorCode::kAlreadyExists);
}

TEST_F(PackageTest, ADamagedSourceIsNotCopied) {
  make_package();
  flip_byte(package() / kWeightsFile, 23 * kMiB);
  EXPECT_EQ(copy_range(package(), root_ / "copy", {3, 4}).error().code(), ErrorCode::kDataLoss);
  EXPECT_FALSE(fs::exists(root_ / "copy"));
  EXPECT_TRUE(copy_range(package(), root_ / "copy", {0, 2}));
  int entries = 0;
  for (const auto& entry : fs::directory_iterator(root_)) entries += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(entries, 2);  // package and copy, no partial one
}

TEST_F(PackageTest, ADataFileReadsAtOffsetsAndShowsItsEnd) {
  make_package();
  auto file = DataFile::create_sparse(root_ / "sparse", 1 * kMiB);
  ASSERT_TRUE(file);
  const std::byte data[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(file->write(512 * 1024, data));
  EXPECT_TRUE(file->has_hole(0, 1000));
  std::byte back[3] = {};
  ASSERT_TRUE(file->read(512 * 1024 - 1, back));
  EXPECT_EQ(back[0], std::byte{0});
  EXPECT_EQ(back[2], std::byte{2});
  const auto beyond = file->read(1 * kMiB - 1, back);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code(), ErrorCode::kDataLoss);
  EXPECT_EQ(DataFile::create_sparse(root_ / "sparse", 1).error().code(), ErrorCode::kAlreadyExists);
}

}  // namespace
}  // namespace paceline::shard
