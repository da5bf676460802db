// From sources to whole packages, or to nothing.
#include "compiler/compile_package.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <set>

#include "compiler/ir_package.h"
#include "compiler/package_analysis.h"
#include "compiler/small_llama.h"
#include "shard/package.h"
#include "system/files.h"
#include "text/test_vocabulary.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Says no as soon as `phase` begins.
class InterruptedAt final : public Progress {
 public:
  explicit InterruptedAt(std::string phase) : phase_(std::move(phase)) {}
  bool update(std::string_view phase, std::uint64_t, std::uint64_t) override {
    phases.emplace(phase);
    return phase != phase_;
  }
  std::set<std::string> phases;

 private:
  const std::string phase_;
};

class CompilePackageTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::temp_directory_path() / fmt::format("paceline-{}-{}", info->name(), ::getpid());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  /// A GGUF of two small layers with the vocabulary of the text tests.
  fs::path make_gguf() const {
    auto vocabulary = text::test_vocabulary("bpe");
    SmallLlama options;
    options.hidden = options.inner = 64;
    options.heads = 2;
    options.kv_heads = 1;
    options.head_size = options.rotary = 32;
    options.vocabulary = static_cast<std::uint32_t>(vocabulary.tokens.size());
    auto writer = write_small_llama(options);
    writer.set_string("general.name", "Small");
    writer.set_string("tokenizer.ggml.model", vocabulary.model);
    writer.set_string("tokenizer.ggml.pre", vocabulary.pre);
    writer.set_strings("tokenizer.ggml.tokens", vocabulary.tokens);
    writer.set_strings("tokenizer.ggml.merges", vocabulary.merges);
    writer.set_numbers("tokenizer.ggml.token_type", model::GgufType::kI32, vocabulary.token_types);
    writer.set_string("tokenizer.chat_template",
                      "{% for m in messages %}{{ m.content }}{% endfor %}");
    const auto bytes = writer.finish();
    const fs::path path = root_ / "small.gguf";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  /// A copy of a tiny model's IR directory.
  fs::path make_ir(const std::string& name = "ir") const {
    const fs::path source = root_ / name;
    fs::copy(PACELINE_SOURCE_DIR "/tests/tiny_models/llama_tied", source);
    return source;
  }
  static Result<CompileReport> compile(const fs::path& source, const fs::path& target) {
    NoProgress progress;
    return compile_package(source, target, CompileOptions{1, 1ULL << 30}, progress);
  }
  fs::path target() const { return root_ / "package"; }
  static std::set<std::string> names_in(const fs::path& directory) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  /// The error, and that only `left` is in the test's directory.
  void expect_refused(const Result<CompileReport>& result, ErrorCode code,
                      const std::vector<std::string>& parts, const std::set<std::string>& left) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), code) << result.error().message();
    for (const auto& part : parts) EXPECT_THAT(result.error().message(), HasSubstr(part));
    EXPECT_THAT(result.error().message(), Not(HasSubstr("\n")));
    EXPECT_EQ(names_in(root_), left);
  }

  fs::path root_;
};

TEST_F(CompilePackageTest, AGgufBecomesAPackage) {
  const auto report = compile(make_gguf(), target());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->self_test.whole_checked);
  EXPECT_EQ(report->self_test.largest_difference, 0.0);
  EXPECT_EQ(names_in(root_), (std::set<std::string>{"package", "small.gguf"}));
  EXPECT_THAT(names_in(target()),
              AllOf(Contains("openvino_model.xml"), Contains("openvino_model.bin"),
                    Contains("config.json"), Contains("generation_config.json"),
                    Contains("tokenizer.json"), Contains("tokenizer_config.json"),
                    Contains("chat_template.jinja"), Contains("paceline.json")));
  const auto manifest = shard::read_manifest(target());
  ASSERT_TRUE(manifest) << manifest.error().message();
  EXPECT_EQ(*manifest, report->manifest);
  EXPECT_EQ(manifest->model, (shard::ModelFacts{"Small", "llama", "gguf"}));
  EXPECT_EQ(manifest->layers, 2U);
  EXPECT_EQ(manifest->hidden_size, 64U);
  EXPECT_EQ(manifest->vocabulary_size, 524U);
  EXPECT_EQ(manifest->context_tokens, 512U);
  EXPECT_EQ(manifest->kv[1], (shard::LayerKv{1, 32, 32}));
  EXPECT_THAT(manifest->quantization, HasSubstr("i8"));
  const auto verified = shard::verify(target(), *manifest);
  EXPECT_TRUE(verified) << verified.error().message();
  EXPECT_TRUE(text::Tokenizer::load(target() / "tokenizer.json"));
}

TEST_F(CompilePackageTest, AnIrDirectoryBecomesAPackageOfLinks) {
  const fs::path source = make_ir();
  std::ofstream(source / "model.safetensors") << "not ours";
  std::ofstream(source / "openvino_tokenizer.xml") << "<net/>";
  std::ofstream(source / ".hidden.json") << "{}";
  fs::create_symlink(root_ / "gone", source / "added_tokens.json");
  fs::rename(source / "config.json", root_ / "blob");
  fs::create_symlink(root_ / "blob", source / "config.json");
  const auto report = compile(source, target());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(names_in(target()), (std::set<std::string>{"config.json", "generation_config.json",
                                                       "openvino_model.bin", "openvino_model.xml",
                                                       "openvino_tokenizer.xml", "paceline.json"}));
  EXPECT_TRUE(fs::equivalent(target() / "openvino_model.bin", source / "openvino_model.bin"));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(target() / "config.json")));
  EXPECT_EQ(report->manifest.model, (shard::ModelFacts{"ir", "llama", "openvino"}));
  EXPECT_EQ(report->manifest.layers, 4U);
  EXPECT_EQ(report->manifest.context_tokens, 512U);
  EXPECT_TRUE(shard::verify(target(), report->manifest));
}

TEST_F(CompilePackageTest, InPlaceOnlyTheManifestIsAdded) {
  const fs::path source = make_ir();
  auto expected = names_in(source);
  expected.insert("paceline.json");
  // However the directory is spelled.
  const auto report = compile(source, root_ / "." / "ir" / "");
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(names_in(source), expected);
  EXPECT_EQ(names_in(root_), std::set<std::string>{"ir"});
  const auto again = compile(source, source);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->manifest.digest, report->manifest.digest) << "the same source, the same bytes";
}

TEST_F(CompilePackageTest, NamesThatAreNoUtf8AreTaken) {
  const auto report = compile(make_ir("m\xff"), target());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(shard::read_manifest(target()));
}

TEST_F(CompilePackageTest, AnExistingTargetIsLeftAlone) {
  fs::create_directories(target());
  std::ofstream(target() / "mine.txt") << "1";
  expect_refused(compile(make_ir(), target()), ErrorCode::kAlreadyExists, {target().string()},
                 {"ir", "package"});
  EXPECT_EQ(names_in(target()), std::set<std::string>{"mine.txt"});
}

TEST_F(CompilePackageTest, BadSourcesAreRefusedAndLeaveNothing) {
  const fs::path deep = root_ / "a" / "b" / "package";
  expect_refused(compile(root_ / "none", deep), ErrorCode::kNotFound, {(root_ / "none").string()},
                 {});
  const fs::path source = make_ir();
  std::ofstream(source / "config.json") << "{\"model_type\": ";
  expect_refused(compile(source, deep), ErrorCode::kInvalidArgument,
                 {(source / "config.json").string(), "expected a JSON object"}, {"ir"});
  expect_refused(compile(source, source), ErrorCode::kInvalidArgument, {"config.json"}, {"ir"});
  EXPECT_FALSE(fs::exists(source / "paceline.json"));
  fs::remove(source / "config.json");
  std::ofstream(source / "openvino_model.xml") << "<net";
  expect_refused(compile(source, target()), ErrorCode::kDataLoss, {"openvino_model.xml"}, {"ir"});
  fs::remove(source / "openvino_model.xml");
  expect_refused(compile(source, target()), ErrorCode::kNotFound,
                 {source.string(), "has no openvino_model.xml"}, {"ir"});
  std::ofstream(source / "model.safetensors") << "1";
  expect_refused(compile(source, source), ErrorCode::kFailedPrecondition,
                 {source.string(), "holds safetensors and no OpenVINO IR"}, {"ir"});
  expect_refused(compile(source, target()), ErrorCode::kNotFound,
                 {(source / "config.json").string()}, {"ir"});
  fs::remove_all(source);
  std::ofstream(root_ / "garbage.gguf") << "neither magic nor model";
  expect_refused(compile(root_ / "garbage.gguf", deep), ErrorCode::kDataLoss, {"garbage.gguf"},
                 {"garbage.gguf"});
}

TEST_F(CompilePackageTest, AWeightlessIrIsRefused) {
  const fs::path source = make_ir();
  fs::resize_file(source / "openvino_model.bin", 1000);
  expect_refused(compile(source, target()), ErrorCode::kDataLoss, {"openvino_model.xml"}, {"ir"});
}

/// Says no from some question of a phase on.
class Interrupted final : public Progress {
 public:
  Interrupted(std::string phase, int question) : phase_(std::move(phase)), question_(question) {}
  bool update(std::string_view phase, std::uint64_t, std::uint64_t) override {
    asked += phase == phase_ ? 1 : 0;
    return asked < question_;
  }
  int asked = 0;

 private:
  std::string phase_;
  int question_;
};

TEST_F(CompilePackageTest, HashingEndsAtTheFirstNo) {
  const fs::path ir = make_ir();
  Interrupted progress("hashing", 1);
  expect_refused(compile_package(ir, target(), {1, 1ULL << 30}, progress), ErrorCode::kCancelled,
                 {}, {"ir"});
  EXPECT_EQ(progress.asked, 1);
}

TEST_F(CompilePackageTest, CopyingEndsAtTheFirstNo) {
  std::string content(5U << 20U, 'x');
  content += "end";
  std::ofstream(root_ / "from", std::ios::binary) << content;
  Interrupted progress("files", 3);
  const Status copied = copy_file(root_ / "from", root_ / "to", progress);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(progress.asked, 3);
  NoProgress patient;
  ASSERT_TRUE(copy_file(root_ / "from", root_ / "to", patient));
  EXPECT_EQ(system::read_text_file(root_ / "to", 8U << 20U).value(), content);
}

TEST_F(CompilePackageTest, AnInterruptionInAnyPhaseLeavesNothing) {
  const fs::path gguf = make_gguf();
  const fs::path ir = make_ir();
  const std::set<std::string> left = {"ir", "small.gguf"};
  InterruptedAt never("");
  ASSERT_TRUE(compile_package(gguf, target(), {1, 1ULL << 30}, never));
  fs::remove_all(target());
  ASSERT_GE(never.phases.size(), 3U);
  for (const std::string& phase : never.phases) {
    InterruptedAt progress(phase);
    CompileOptions options = {1, 1ULL << 30};
    options.resume = false;
    expect_refused(compile_package(gguf, target(), options, progress), ErrorCode::kCancelled, {},
                   left);
  }
  for (const char* phase : {"files", "hashing"}) {
    InterruptedAt progress(phase);
    expect_refused(compile_package(ir, target(), {1, 1ULL << 30}, progress), ErrorCode::kCancelled,
                   {}, left);
  }
  InterruptedAt in_place("hashing");
  expect_refused(compile_package(ir, ir, {1, 1ULL << 30}, in_place), ErrorCode::kCancelled, {},
                 left);
  EXPECT_FALSE(fs::exists(ir / "paceline.json"));
}

/// Every file of a directory with its bytes.
std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

/// Keeps what it is told.
class Listening final : public Progress {
 public:
  bool update(std::string_view, std::uint64_t, std::uint64_t) override { return true; }
  void note(std::string_view message) override { notes += std::string(message) + "\n"; }
  std::string notes;
};

TEST_F(CompilePackageTest, AnInterruptedCompileGoesOnToTheSameBytes) {
  const fs::path gguf = make_gguf();
  ASSERT_TRUE(compile(gguf, target()));
  const auto expected = contents(target());
  for (const char* phase : {"weights", "graph", "self-test", "hashing"}) {
    fs::remove_all(target());
    InterruptedAt progress(phase);
    const auto cancelled = compile_package(gguf, target(), {1, 1ULL << 30}, progress);
    expect_refused(cancelled, ErrorCode::kCancelled, {"package.partial keeps what was done"},
                   {"package.partial", "small.gguf"});
    Listening listening;
    const auto resumed = compile_package(gguf, target(), {1, 1ULL << 30}, listening);
    ASSERT_TRUE(resumed) << resumed.error().message();
    EXPECT_THAT(listening.notes, HasSubstr("going on with an interrupted compile"));
    EXPECT_TRUE(contents(target()) == expected) << phase;
    EXPECT_EQ(names_in(root_), (std::set<std::string>{"package", "small.gguf"}));
  }
}

TEST_F(CompilePackageTest, WhatWasKeptIsNotTakenForAnotherSource) {
  const fs::path gguf = make_gguf();
  InterruptedAt progress("self-test");
  ASSERT_FALSE(compile_package(gguf, target(), {1, 1ULL << 30}, progress));
  fs::last_write_time(gguf, fs::last_write_time(gguf) + std::chrono::seconds(1));
  Listening listening;
  ASSERT_TRUE(compile_package(gguf, target(), {1, 1ULL << 30}, listening));
  EXPECT_THAT(listening.notes, Not(HasSubstr("going on")));
  // Nor for an IR, whose files are links: what was kept goes, and nothing is written into them.
  fs::remove_all(target());
  InterruptedAt again("self-test");
  ASSERT_FALSE(compile_package(gguf, target(), {1, 1ULL << 30}, again));
  const fs::path ir = make_ir();
  const auto before = contents(ir);
  ASSERT_TRUE(compile(ir, target()));
  EXPECT_TRUE(contents(ir) == before);
  EXPECT_FALSE(fs::exists(root_ / "package.partial"));
}

TEST_F(CompilePackageTest, LinksThatAKilledCompileLeftAreNeverWrittenTo) {
  const fs::path ir = make_ir();
  const auto before = contents(ir);
  fs::create_directories(root_ / "package.partial");
  fs::create_hard_link(ir / "openvino_model.bin", root_ / "package.partial/openvino_model.bin");
  ASSERT_TRUE(compile(make_gguf(), target()));
  EXPECT_TRUE(contents(ir) == before);
}

TEST_F(CompilePackageTest, FloatsAreQuantizedUnlessToldOtherwise) {
  const auto report = compile(make_gguf(), target());  // F32
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->manifest.quantization, HasSubstr("i4 group 64"));
  const StoredWeight& weight = report->weights.at("model.layers.0.mlp.up_proj.weight");
  EXPECT_GT(weight.errors.relative(), 0.02);
  EXPECT_LT(weight.errors.relative(), 0.12);
  fs::remove_all(target());
  CompileOptions options = {1, 1ULL << 30};
  options.weights.weights = WeightKind::kF32;
  NoProgress progress;
  const auto exact = compile_package(root_ / "small.gguf", target(), options, progress);
  ASSERT_TRUE(exact) << exact.error().message();
  EXPECT_THAT(exact->manifest.quantization, HasSubstr("f32 100 %"));
}

}  // namespace
}  // namespace paceline::compiler
