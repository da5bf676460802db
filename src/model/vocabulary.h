// A vocabulary as GGUF metadata holds it: the raw material of a tokenizer.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::model {

struct Vocabulary {
  std::string
      architecture;   ///< general.architecture: some rules of its tokenizer stand nowhere else
  std::string model;  ///< tokenizer.ggml.model: "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;    ///< tokenizer.ggml.pre, e.g. "smollm"; empty: not stated
  std::vector<std::string> tokens;
  std::vector<float> scores;  ///< SentencePiece only
  std::vector<std::int32_t>
      token_types;  ///< 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<std::string> merges;  ///< "left right", BPE only
  std::int64_t bos_id = -1;         ///< -1: none
  std::int64_t eos_id = -1;
  std::int64_t unknown_id = -1;
  std::int64_t padding_id = -1;
  std::optional<bool> add_bos;  ///< not stated: as the pre-tokenizer's models do
  std::optional<bool> add_eos;
  bool add_space_prefix = true;  ///< SentencePiece only
  std::string chat_template;     ///< Jinja; may be empty
};

}  // namespace paceline::model
