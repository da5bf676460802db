// For tests of this folder: the committed vocabularies of tests/golden and tokenizers made of them.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/vocabulary.h"
#include "system/files.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace paceline::text {

inline nlohmann::ordered_json golden_file(const std::string& name) {
  const auto content =
      system::read_text_file(PACELINE_SOURCE_DIR "/tests/golden/" + name, std::uint64_t{1} << 24);
  EXPECT_TRUE(content.has_value()) << content.error().message();
  return content ? nlohmann::ordered_json::parse(*content) : nlohmann::ordered_json();
}

/// "bpe" (pre-tokenizer smollm until changed) or "sentencepiece".
inline model::Vocabulary test_vocabulary(const std::string& name) {
  const nlohmann::ordered_json json = golden_file("vocabulary_" + name + ".json");
  model::Vocabulary vocabulary;
  vocabulary.model = json.at("model");
  vocabulary.pre = name == "bpe" ? "smollm" : "";
  vocabulary.tokens = json.at("tokens").get<std::vector<std::string>>();
  vocabulary.scores = json.at("scores").get<std::vector<float>>();
  vocabulary.token_types = json.at("token_types").get<std::vector<std::int32_t>>();
  vocabulary.merges = json.at("merges").get<std::vector<std::string>>();
  vocabulary.bos_id = json.at("bos_id");
  vocabulary.eos_id = json.at("eos_id");
  vocabulary.unknown_id = json.at("unknown_id");
  return vocabulary;
}

/// Aborts the test where the vocabulary gives no tokenizer.
inline Tokenizer tokenizer_of(const model::Vocabulary& vocabulary) {
  const auto json = tokenizer_json_from(vocabulary);
  EXPECT_TRUE(json.has_value()) << json.error().message();
  auto tokenizer = Tokenizer::parse(json.value());
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message();
  return std::move(tokenizer.value());
}

inline Tokenizer test_tokenizer(const std::string& name) {
  return tokenizer_of(test_vocabulary(name));
}

using Ids = std::vector<std::int64_t>;

}  // namespace paceline::text
