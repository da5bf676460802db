// Fetching layers: what arrives, what is kept, what a source may do wrong.
#include "shard/fetch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <set>

#include "shard/package_testing.h"
#include "system/files.h"

namespace paceline::shard {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A package directory whose bytes a test may change, shorten, lengthen or end.
class FaultySource final : public PackageSource {
 public:
  explicit FaultySource(const fs::path& directory) : inner_(directory), name_("the source") {}
  const std::string& name() const override { return name_; }
  Result<std::string> read_manifest_text() override {
    auto text = inner_.read_manifest_text();
    if (text && change_manifest) change_manifest(*text);
    return text;
  }
  Status read(std::span<const FileRange> ranges, const PieceSink& sink) override {
    asked.assign(ranges.begin(), ranges.end());
    return inner_.read(ranges, [&](std::size_t index, std::span<const std::byte> bytes) -> Status {
      if (pieces++ == fail_at) return fail(ErrorCode::kUnavailable, "the source went away");
      std::vector<std::byte> copy(bytes.begin(), bytes.end());
      if (change) change(ranges[index], copy);
      return sink(index, copy);
    });
  }
  std::uint64_t asked_bytes() const {
    std::uint64_t bytes = 0;
    for (const FileRange& range : asked) bytes += range.bytes;
    return bytes;
  }

  std::function<void(std::string&)> change_manifest;
  std::function<void(const FileRange&, std::vector<std::byte>&)> change;
  std::size_t fail_at = SIZE_MAX;
  std::size_t pieces = 0;
  std::vector<FileRange> asked;

 private:
  DirectorySource inner_;
  std::string name_;
};

class FetchTest : public PackageTestBase {
 protected:
  void SetUp() override {
    PackageTestBase::SetUp();
    manifest_ = make_package();
  }
  fs::path target() const { return root_ / "shelf" / "target"; }
  static FetchOptions only(LayerRange range) {
    FetchOptions options;
    options.layers = range;
    options.threads = 2;
    return options;
  }
  Result<FetchReport> fetch(const FetchOptions& options) const {
    DirectorySource source(package());
    return fetch_layers(source, target(), options);
  }
  Status verify_layers(LayerRange range) const {
    VerifyOptions options;
    options.layers = range;
    return verify(target(), manifest_, options);
  }
  std::set<std::string> entries() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(target()))
      names.insert(entry.path().filename());
    return names;
  }
  std::uint64_t stored_bytes() const {
    struct stat info = {};
    EXPECT_EQ(::stat((target() / kWeightsFile).c_str(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  const std::set<std::string> whole_ = {"config.json", kWeightsFile, kGraphFile, kManifestFile};
  Manifest manifest_;
};

TEST_F(FetchTest, ARangeArrivesVerifiesAndHoldsNothingElse) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> shown;
  auto options = only({1, 3});
  options.digest = manifest_.digest;
  options.progress = [&](std::string_view phase, std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, shown[std::string(phase)].first);
    shown[std::string(phase)] = {done, total};
  };
  const auto report = fetch(options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->digest, manifest_.digest);
  EXPECT_EQ(report->layers, (LayerRange{1, 3}));
  EXPECT_EQ(report->present_bytes, 0U);
  EXPECT_EQ(report->fetched_bytes, 2 * kMiB + 1000 + 8);
  EXPECT_EQ(shown["fetching"], std::pair(report->fetched_bytes, report->fetched_bytes));
  EXPECT_EQ(shown["checking"].first, shown["checking"].second);
  EXPECT_EQ(entries(), whole_);
  EXPECT_EQ(read_manifest(target())->digest, manifest_.digest);
  EXPECT_TRUE(verify_layers({1, 3}));
  EXPECT_EQ(verify_layers({0, 3}).error().code(), ErrorCode::kNotFound);
  EXPECT_LT(stored_bytes(), 3 * kMiB);
  EXPECT_EQ(fs::file_size(target() / kWeightsFile), kWeightBytes);
}

TEST_F(FetchTest, MoreLayersComeIntoTheSameDirectoryAndOnlyThese) {
  ASSERT_TRUE(fetch(only({1, 3})));
  const auto wider = fetch(only({1, 4}));
  ASSERT_TRUE(wider) << wider.error().message();
  EXPECT_EQ(wider->fetched_bytes, 2 * kMiB) << "layer 3 and the head";
  EXPECT_TRUE(verify_layers({1, 4}));
  const auto again = fetch(only({1, 4}));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->fetched_bytes, 0U);
  const auto all = fetch(FetchOptions());
  ASSERT_TRUE(all);
  EXPECT_EQ(all->fetched_bytes, 19 * kMiB);
  EXPECT_TRUE(verify(target(), manifest_));
  EXPECT_EQ(entries(), whole_);
}

TEST_F(FetchTest, WhatWasThereBeforeAnInterruptionIsNotFetchedAgain) {
  FaultySource source(package());
  source.fail_at = 2 + 16 + 1;  // both files, the first extent, a piece of the second
  const auto interrupted = fetch_layers(source, target(), FetchOptions());
  ASSERT_FALSE(interrupted);
  EXPECT_EQ(interrupted.error().message(), "the source went away");
  EXPECT_EQ(read_manifest(target()).error().code(), ErrorCode::kNotFound) << "no package yet";
  EXPECT_TRUE(fs::exists(target() / kFetchFile));

  FaultySource next(package());
  const auto report = fetch_layers(next, target(), FetchOptions());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->present_bytes, 16 * kMiB + 8);
  EXPECT_EQ(next.asked_bytes(), 7 * kMiB + 1000);
  EXPECT_TRUE(verify(target(), manifest_));
  EXPECT_EQ(entries(), whole_);
}

TEST_F(FetchTest, DamageHereIsMendedByFetchingThatExtentAgain) {
  ASSERT_TRUE(fetch(FetchOptions()));
  {
    auto weights = DataFile::open_for_update(target() / kWeightsFile, kWeightBytes);
    std::byte byte[1] = {};
    ASSERT_TRUE(weights->read(20 * kMiB + 77, byte));
    byte[0] ^= std::byte{1};
    ASSERT_TRUE(weights->write(20 * kMiB + 77, byte));
  }
  write_text(target() / "config.json", "[]");
  FaultySource source(package());
  const auto report = fetch_layers(source, target(), FetchOptions());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->fetched_bytes, kMiB + 2);
  ASSERT_EQ(source.asked.size(), 2U);
  EXPECT_EQ(source.asked[0].file, "config.json");
  EXPECT_EQ(source.asked[1].offset, 20 * kMiB);
  EXPECT_TRUE(verify(target(), manifest_));
}

TEST_F(FetchTest, NothingWithAWrongHashIsPutInPlace) {
  FaultySource source(package());
  source.change = [](const FileRange& range, std::vector<std::byte>& bytes) {
    if (range.offset == 19 * kMiB) bytes[1000] ^= std::byte{1};
  };
  const auto damaged = fetch_layers(source, target(), only({1, 3}));
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code(), ErrorCode::kDataLoss);
  EXPECT_EQ(damaged.error().message(),
            "the source: extent 3 (1048576 bytes at offset 19922944) came without the SHA-256 of "
            "paceline.json");
  EXPECT_TRUE(DataFile::open(target() / kWeightsFile)->is_hole(0, kWeightBytes));
  EXPECT_FALSE(fs::exists(target() / kManifestFile));

  source.change = [](const FileRange& range, std::vector<std::byte>& bytes) {
    if (range.file == kGraphFile) bytes[0] = std::byte{'!'};
  };
  fs::remove_all(target());
  const auto file = fetch_layers(source, target(), only({1, 3}));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message(), HasSubstr("the source: openvino_model.xml came with"));
  EXPECT_FALSE(fs::exists(target() / kGraphFile));
  EXPECT_EQ(entries(), (std::set<std::string>{kFetchFile, "config.json", kWeightsFile}));
  ASSERT_TRUE(fetch(only({1, 3}))) << "an honest source can go on";
}

TEST_F(FetchTest, ASourceThatGivesTooMuchOrTooLittleIsRefused) {
  for (const char* file : {"config.json", kWeightsFile}) {
    fs::remove_all(target());
    FaultySource longer(package());
    longer.change = [&](const FileRange& range, std::vector<std::byte>& bytes) {
      if (range.file == file) bytes.resize(bytes.size() + 1);
    };
    const auto much = fetch_layers(longer, target(), only({1, 3}));
    ASSERT_FALSE(much);
    EXPECT_EQ(much.error().code(), ErrorCode::kDataLoss);
    EXPECT_THAT(much.error().message(), HasSubstr("the source: gave more bytes of"));
  }
  fs::remove_all(target());
  FaultySource shorter(package());
  shorter.change = [&](const FileRange& range, std::vector<std::byte>& bytes) {
    if (range.offset == 22 * kMiB) bytes.resize(bytes.size() - 1);
  };
  const auto little = fetch_layers(shorter, target(), only({1, 3}));
  ASSERT_FALSE(little);
  EXPECT_EQ(little.error().code(), ErrorCode::kDataLoss);
  EXPECT_THAT(little.error().message(), HasSubstr("were asked for"));
  EXPECT_FALSE(fs::exists(target() / kManifestFile));
}

TEST_F(FetchTest, ADigestMayBeNamedAndADirectoryKeepsIts) {
  auto options = only({1, 3});
  options.digest = std::string(64, '0');
  const auto other = fetch(options);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(other.error().message(), HasSubstr("expected " + options.digest));
  EXPECT_FALSE(fs::exists(root_ / "shelf")) << "nothing is made for a wrong digest";

  FaultySource source(package());
  source.fail_at = 2;
  ASSERT_FALSE(fetch_layers(source, target(), only({1, 3})));
  FaultySource changed(package());
  changed.change_manifest = [](std::string& text) { text += "\n"; };
  for (int round = 0; round < 2; ++round) {  // with a marker only, then with a manifest
    const auto refused = fetch_layers(changed, target(), only({1, 3}));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::kFailedPrecondition);
    EXPECT_THAT(refused.error().message(), HasSubstr("choose another directory"));
    ASSERT_TRUE(fetch(only({1, 3})));
  }
}

TEST_F(FetchTest, ManifestsThatAreNoneLeaveNothing) {
  FaultySource source(package());
  source.change_manifest = [](std::string& text) { text.resize(text.size() / 2); };
  const auto torn = fetch_layers(source, target(), FetchOptions());
  ASSERT_FALSE(torn);
  EXPECT_THAT(torn.error().message(), HasSubstr("the source: paceline.json: is not JSON"));
  source.change_manifest = [](std::string& text) { text.assign(kMaxManifestBytes + 1, ' '); };
  EXPECT_EQ(fetch_layers(source, target(), FetchOptions()).error().code(), ErrorCode::kDataLoss);
  const auto beyond = fetch(only({2, 5}));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(root_ / "shelf"));
}

TEST_F(FetchTest, OtherContentAndOtherFetchesAreLeftAlone) {
  fs::create_directories(target());
  write_text(target() / "letter.txt", "dear");
  const auto foreign = fetch(only({1, 3}));
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(entries(), std::set<std::string>{"letter.txt"});
  fs::remove(target() / "letter.txt");

  const int other = ::open((target() / kFetchFile).c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
  const auto busy = fetch(only({1, 3}));
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().message(), target().string() + ": another process is filling it");
  ::close(other);
  EXPECT_TRUE(fetch(only({1, 3})));
  write_text(root_ / "file", "x");
  DirectorySource source(package());
  EXPECT_FALSE(fetch_layers(source, root_ / "file" / "below", FetchOptions()));
}

TEST_F(FetchTest, ASparseSourceGivesWhatItHasAndNamesWhatItHasNot) {
  ASSERT_TRUE(copy_range(package(), root_ / "sparse", {1, 3}));
  DirectorySource source(root_ / "sparse");
  const auto missing = fetch_layers(source, target(), only({1, 4}));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr((root_ / "sparse" / kWeightsFile).string()));
  EXPECT_THAT(missing.error().message(), HasSubstr("is missing"));
  const auto held = fetch_layers(source, target(), only({1, 3}));
  ASSERT_TRUE(held) << held.error().message();
  EXPECT_EQ(held->fetched_bytes, 1000U) << "the two layers had come before";
}

TEST_F(FetchTest, AFullDiskIsNamedAndTheRestComesLater) {
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_TRUE(fetch(only({1, 3})));  // sets the length, which the limit would refuse
  struct rlimit small = before;
  small.rlim_cur = 21 * kMiB;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto full = fetch(only({1, 4}));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(full.error().message(), HasSubstr((target() / kWeightsFile).string()));
  EXPECT_TRUE(verify_layers({1, 3})) << "what was there stays";
  EXPECT_TRUE(fetch(only({1, 4})));
}

TEST_F(FetchTest, InterruptionsAreNoticedWithinAPiece) {
  auto options = only({0, 4});
  std::uint64_t fetched = 0;
  options.progress = [&](std::string_view phase, std::uint64_t done, std::uint64_t) {
    if (phase == "fetching") fetched = done;
  };
  options.is_wanted = [&] { return fetched < 3 * kMiB; };
  const auto interrupted = fetch(options);
  ASSERT_FALSE(interrupted);
  EXPECT_EQ(interrupted.error().code(), ErrorCode::kCancelled);
  EXPECT_LE(fetched, 4 * kMiB);
}

TEST_F(FetchTest, AnEmptyFileArrivesToo) {
  write_text(package() / "empty.txt", "");
  auto manifest = build_manifest(package(), facts(), pieces());
  ASSERT_TRUE(manifest);
  ASSERT_TRUE(write_manifest(package(), &*manifest));
  ASSERT_TRUE(fetch(only({1, 2})));
  EXPECT_TRUE(fs::exists(target() / "empty.txt"));
  EXPECT_EQ(fs::file_size(target() / "empty.txt"), 0U);
}

}  // namespace
}  // namespace paceline::shard
