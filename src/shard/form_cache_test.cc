// The cache of compiled forms as files: what is found, refused, bounded and removed.
#include "shard/form_cache.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <set>
#include <thread>

namespace paceline::shard {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FormCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::temp_directory_path() / fmt::format("paceline-{}-{}", info->name(), ::getpid());
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  static FormHeader header(LayerRange layers = {0, 4}) {
    FormHeader form;
    form.identity = {"0123456789abcdef0123",
                     layers,
                     "CPU",
                     "stateful",
                     Profile::kExact,
                     "A \"processor\"",
                     "avx2",
                     "2026.4.1",
                     {{"NUM_STREAMS", "1"}, {"KV", "f32"}}};
    form.weight_group = 32;
    form.weight_bytes = 1000;
    form.embedding_rows = 256;
    form.rewinds_by_mask = true;
    form.compile_us = 500'000;
    return form;
  }
  static Status store(const FormCache& cache, const FormHeader& form, const std::string& blob) {
    return cache.store(form, [&](std::ostream& stream) -> Status {
      stream << blob;
      return {};
    });
  }
  FormCache cache(std::uint64_t limit = kDefaultFormLimitBytes) const {
    return FormCache::open(root_ / "forms", limit).value();
  }
  std::set<std::string> entries() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_ / "forms")) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  static std::string text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static void age(const fs::path& path, int hours) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }

  fs::path root_;
};

TEST_F(FormCacheTest, AStoredFormIsFoundAsItWas) {
  const FormCache forms = cache();
  ASSERT_TRUE(store(forms, header(), "a blob"));
  const auto found = forms.find(header().identity);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(text((*found)->blob()), "a blob");
  EXPECT_TRUE((*found)->verify());
  FormHeader expected = header();
  expected.blob_bytes = 6;
  expected.blob_sha256 = sha256(std::string_view("a blob"));
  EXPECT_EQ((*found)->header(), expected);
  EXPECT_EQ(form_difference((*found)->header().identity, header().identity), "");
  EXPECT_EQ(entries(), std::set<std::string>{"0123456789abcdef-0-4-CPU-stateful-exact.form"});
  ASSERT_TRUE(store(forms, header(), "another blob"));
  EXPECT_EQ(text((*forms.find(header().identity))->blob()), "another blob");
  EXPECT_EQ(text((*found)->blob()), "a blob") << "who has it keeps it";
  EXPECT_EQ(forms.find(header({0, 3}).identity).error().code(), ErrorCode::kNotFound);
}

TEST_F(FormCacheTest, EveryDifferenceIsSaidWithBothValues) {
  const FormIdentity form = header().identity;
  const auto difference = [&](auto change) {
    FormIdentity wanted = form;
    change(wanted);
    return form_difference(form, wanted);
  };
  EXPECT_EQ(difference([](FormIdentity& i) { i.openvino_version = "2027.0"; }),
            "openvino_version: the form has 2026.4.1, this is 2027.0");
  EXPECT_EQ(difference([](FormIdentity& i) { i.package_digest = "ff"; }),
            "package_digest: the form has 0123456789abcdef0123, this is ff");
  EXPECT_EQ(difference([](FormIdentity& i) { i.device = "GPU"; }),
            "device: the form has CPU, this is GPU");
  EXPECT_EQ(difference([](FormIdentity& i) { i.device_name = "Other"; }),
            "device_name: the form has A \"processor\", this is Other");
  EXPECT_EQ(difference([](FormIdentity& i) { i.engine = "paged"; }),
            "engine: the form has stateful, this is paged");
  EXPECT_EQ(difference([](FormIdentity& i) { i.isa = ""; }),
            "isa: the form has avx2, this is nothing");
  EXPECT_EQ(difference([](FormIdentity& i) {
              i.layers = {0, 5};
            }),
            "layers: the form has 0:4, this is 0:5");
  EXPECT_EQ(difference([](FormIdentity& i) { i.profile = Profile::kFast; }),
            "profile: the form has exact, this is fast");
  EXPECT_EQ(difference([](FormIdentity& i) { i.properties["KV"] = "u8"; }),
            "property KV: the form has f32, this is u8");
  EXPECT_EQ(difference([](FormIdentity& i) { i.properties.erase("KV"); }),
            "property KV: the form has f32, this is nothing");
  EXPECT_EQ(difference([](FormIdentity& i) { i.properties["THREADS"] = "2"; }),
            "property THREADS: the form has nothing, this is 2");
}

TEST_F(FormCacheTest, DamageAnywhereIsFound) {
  const FormCache forms = cache();
  const std::string blob(10'000, 'b');
  const fs::path path = forms.path_of(header().identity);
  for (const std::uint64_t offset : {0, 5000, 9999}) {
    ASSERT_TRUE(store(forms, header(), blob));
    std::fstream(path, std::ios::in | std::ios::out).seekp(static_cast<long>(offset)).put('!');
    const auto found = forms.find(header().identity);
    ASSERT_TRUE(found);
    EXPECT_EQ((*found)->verify().error().code(), ErrorCode::kDataLoss);
    EXPECT_THAT((*found)->verify().error().message(), HasSubstr(path.string()));
  }
  for (const std::uint64_t bytes : {0U, 100U, 4096U, 10'000U, 14'095U}) {
    ASSERT_TRUE(store(forms, header(), blob));
    fs::resize_file(path, bytes);
    const auto found = forms.find(header().identity);
    ASSERT_FALSE(found) << bytes;
    EXPECT_EQ(found.error().code(), ErrorCode::kDataLoss);
  }
  ASSERT_TRUE(store(forms, header(), blob));
  std::ofstream(path, std::ios::app) << "x";
  EXPECT_FALSE(forms.find(header().identity));
}

TEST_F(FormCacheTest, HeadersOfOthersAreRefusedByField) {
  const std::string good = form_trailer(header()).value();
  EXPECT_TRUE(parse_form_header(good));
  const auto refusal = [&](const char* from, const char* to) {
    std::string bad = good;
    bad.replace(bad.find(from), std::string_view(from).size(), to);
    const auto parsed = parse_form_header(bad);
    return parsed ? "accepted" : parsed.error().message();
  };
  EXPECT_THAT(refusal("\"form_version\":2", "\"form_version\":1"), HasSubstr("form_version"));
  EXPECT_THAT(refusal("[0,4]", "[4,4]"), HasSubstr("layers[1]"));
  EXPECT_THAT(refusal("\"exact\"", "\"slow\""), HasSubstr("profile"));
  EXPECT_THAT(refusal("\"1\"", "1"), HasSubstr("properties.NUM_STREAMS"));
  EXPECT_THAT(refusal("\"blob_bytes\":0", "\"blob_bytes\":-1"), HasSubstr("blob_bytes"));
  EXPECT_THAT(refusal(":256", ":-1"), HasSubstr("embedding_rows"));
  EXPECT_THAT(refusal(":true", ":1"), HasSubstr("rewinds_by_mask"));
  EXPECT_THAT(refusal("0000", "000Z"), HasSubstr("blob_sha256"));
  EXPECT_FALSE(parse_form_header(""));
  EXPECT_FALSE(parse_form_header(std::string(4096, '[')));
  FormHeader large = header();
  large.identity.device_name = std::string(5000, 'x');
  EXPECT_FALSE(form_trailer(large));
}

TEST_F(FormCacheTest, TheCacheIsBoundedByTheLeastRecentlyUsed) {
  const FormCache forms = cache(3 * (kFormTrailerBytes + 100));
  const std::string blob(100, 'b');
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    ASSERT_TRUE(store(forms, header({layer, layer + 1}), blob));
    age(forms.path_of(header({layer, layer + 1}).identity), 10 - static_cast<int>(layer));
  }
  forms.touch(header({0, 1}).identity);
  ASSERT_TRUE(store(forms, header({3, 4}), blob));
  EXPECT_TRUE(forms.find(header({0, 1}).identity)) << "it was used just now";
  EXPECT_FALSE(forms.find(header({1, 2}).identity));
  EXPECT_TRUE(forms.find(header({2, 3}).identity));
  EXPECT_TRUE(forms.find(header({3, 4}).identity));
  const auto too_large = store(forms, header({4, 5}), std::string(20'000, 'b'));
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(entries().size(), 3U) << "nothing is given up for it";
}

TEST_F(FormCacheTest, PruningRemovesWhatIsOfNoUse) {
  const FormCache forms = cache();
  ASSERT_TRUE(store(forms, header({0, 1}), "good"));
  FormHeader old = header({1, 2});
  old.identity.openvino_version = "2025.1";
  ASSERT_TRUE(store(forms, old, "old"));
  ASSERT_TRUE(store(forms, header({2, 3}), "torn"));
  fs::resize_file(forms.path_of(header({2, 3}).identity), 50);
  const auto partial = [&](const std::string& name) {
    std::ofstream(root_ / "forms" / name) << "half";
    return root_ / "forms" / name;
  };
  partial(".a.form.partial-999999999-0");                                          // nobody's
  const fs::path mine = partial(fmt::format(".b.form.partial-{}-0", ::getpid()));  // being written
  age(partial(fmt::format(".c.form.partial-{}-0", ::getpid())), 30);               // for too long
  std::ofstream(root_ / "forms" / "letter.txt") << "dear";
  const auto report = forms.prune("2026.4.1");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->removed, 4U);
  EXPECT_EQ(report->kept, 1U);
  EXPECT_EQ(report->kept_bytes, kFormTrailerBytes + 4);
  EXPECT_EQ(entries(), (std::set<std::string>{"0123456789abcdef-0-1-CPU-stateful-exact.form",
                                              "letter.txt", mine.filename().string()}));
}

TEST_F(FormCacheTest, AFailedExportLeavesNothing) {
  const FormCache forms = cache();
  const auto failed = forms.store(header(), [](std::ostream& stream) -> Status {
    stream << "half";
    return fail(ErrorCode::kInternal, "the plugin gave up");
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "the plugin gave up");
  const auto full = forms.store(header(), [](std::ostream& stream) -> Status {
    stream.setstate(std::ios::badbit);  // what a full disk does to a stream
    return {};
  });
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(entries().empty());
}

TEST_F(FormCacheTest, SeveralWritersAtOnceLeaveOneWholeForm) {
  const FormCache forms = cache();
  {
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < 4; ++writer) {
      writers.emplace_back([&forms, writer] {
        for (int i = 0; i < 20; ++i) {
          EXPECT_TRUE(store(forms, header(), std::string(5000, static_cast<char>('a' + writer))));
          const auto found = forms.find(header().identity);
          ASSERT_TRUE(found);
          EXPECT_TRUE((*found)->verify());
        }
      });
    }
  }
  EXPECT_EQ(entries().size(), 1U);
}

TEST_F(FormCacheTest, ADirectoryThatCannotBeIsNamed) {
  fs::create_directories(root_);
  std::ofstream(root_ / "file") << "x";
  const auto cache = FormCache::open(root_ / "file" / "below");
  ASSERT_FALSE(cache);
  EXPECT_THAT(cache.error().message(), HasSubstr((root_ / "file" / "below").string()));
}

}  // namespace
}  // namespace paceline::shard
