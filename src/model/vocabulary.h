// A vocabulary as GGUF metadata holds it: the raw material of a tokenizer.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::model {

struct Vocabulary {
  std::string model;  ///< tokenizer.ggml.model: "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;    ///< tokenizer.ggml.pre, e.g. "smollm"; empty: "default"
  std::vector<std::string> tokens;
  std::vector<float> scores;  ///< SentencePiece only
  std::vector<std::int32_t>
      token_types;                  ///< 1 normal, 2 unknown, 3 control, 4 user-defined, 6 byte
  std::vector<std::string> merges;  ///< "left right", BPE only
  std::int64_t bos_id = -1;         ///< -1: none
  std::int64_t eos_id = -1;
  std::int64_t unknown_id = -1;
  std::int64_t padding_id = -1;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = true;  ///< SentencePiece only
  std::string chat_template;     ///< Jinja; may be empty
};

}  // namespace paceline::model
