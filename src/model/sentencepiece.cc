#include "model/sentencepiece.h"

#include <bit>
#include <functional>
#include <string>
#include <utility>

#include "model/protobuf_reader.h"
#include "system/files.h"

namespace paceline::model {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kBpe = 2;

using FieldHandler = std::function<Status(const ProtobufField&)>;

Status each_field(std::string_view message, const FieldHandler& handle) {
  ProtobufReader reader(message);
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const auto field, reader.next());
    if (!field) return {};
    PACELINE_RETURN_IF_ERROR(handle(*field));
  }
}

/// A message that a field holds; other kinds of fields with its number are skipped.
Status each_field_of(const ProtobufField& field, std::string_view name,
                     const FieldHandler& handle) {
  if (field.type != WireType::kBytes) return {};
  auto done = each_field(field.bytes, handle);
  if (!done) return fail(done.error().with_context(name));
  return {};
}

struct Piece {
  std::string token;
  float score = 0.0F;
  std::int32_t type = 1;  ///< the numbers are those of tokenizer.ggml.token_type
};

Status read_piece(const ProtobufField& field, Piece& piece) {
  if (field.number == 1 && field.type == WireType::kBytes) piece.token = field.bytes;
  if (field.number == 2 && field.type == WireType::kFixed32) {
    piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
  }
  if (field.number == 3 && field.type == WireType::kVarint) {
    if (field.value < 1 || field.value > 6) {
      return fail(ErrorCode::kDataLoss, "type: is {}, expected 1 to 6", field.value);
    }
    piece.type = static_cast<std::int32_t>(field.value);
  }
  return {};
}

/// What the two specifications say, with the defaults of their fields.
struct Specification {
  std::uint64_t model_type = 1;
  bool whitespace_as_suffix = false;
  std::int32_t unknown_id = 0;
  std::int32_t bos_id = 1;
  std::int32_t eos_id = 2;
  std::int32_t padding_id = -1;
  bool has_character_table = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

void read_trainer(const ProtobufField& field, Specification& specification) {
  if (field.type != WireType::kVarint) return;
  const auto id = static_cast<std::int32_t>(field.value);  // negative numbers have ten bytes
  switch (field.number) {
    case 3:
      specification.model_type = field.value;
      break;
    case 24:
      specification.whitespace_as_suffix = field.value != 0;
      break;
    case 40:
      specification.unknown_id = id;
      break;
    case 41:
      specification.bos_id = id;
      break;
    case 42:
      specification.eos_id = id;
      break;
    case 43:
      specification.padding_id = id;
      break;
    default:
      break;
  }
}

void read_normalizer(const ProtobufField& field, Specification& specification) {
  switch (field.number) {
    case 2:
      specification.has_character_table = !field.bytes.empty();
      break;
    case 3:
      specification.add_dummy_prefix = field.value != 0;
      break;
    case 4:
      specification.remove_extra_whitespaces = field.value != 0;
      break;
    case 5:
      specification.escape_whitespaces = field.value != 0;
      break;
    default:
      break;
  }
}

/// Only what a tokenizer.json of ours says the same of.
Status check(const Specification& specification) {
  if (specification.model_type != kBpe) {
    return fail(ErrorCode::kUnimplemented, "trainer_spec.model_type: is {}, expected {} (BPE)",
                specification.model_type, kBpe);
  }
  const auto refuse = [](bool given, std::string_view field, std::string_view expected) -> Status {
    if (!given) return {};
    return fail(ErrorCode::kUnimplemented, "{}: expected {}", field, expected);
  };
  PACELINE_RETURN_IF_ERROR(refuse(specification.whitespace_as_suffix,
                                  "trainer_spec.treat_whitespace_as_suffix", "false"));
  PACELINE_RETURN_IF_ERROR(refuse(specification.has_character_table,
                                  "normalizer_spec.precompiled_charsmap", "none (identity)"));
  PACELINE_RETURN_IF_ERROR(refuse(specification.remove_extra_whitespaces,
                                  "normalizer_spec.remove_extra_whitespaces", "false"));
  return refuse(!specification.escape_whitespaces, "normalizer_spec.escape_whitespaces", "true");
}

/// Any negative id means none.
std::int64_t id_or_none(std::int32_t id) { return id < 0 ? -1 : id; }

}  // namespace

Result<Vocabulary> parse_sentencepiece(std::string_view bytes) {
  Vocabulary vocabulary;
  vocabulary.model = "llama";
  Specification specification;
  const auto add_piece = [&](const ProtobufField& field) -> Status {
    Piece piece;
    const std::string name = fmt::format("pieces[{}]", vocabulary.tokens.size());
    if (vocabulary.tokens.size() == kMaxPieces) {
      return fail(ErrorCode::kDataLoss, "{}: expected at most {} pieces", name, kMaxPieces);
    }
    PACELINE_RETURN_IF_ERROR(
        each_field_of(field, name, [&](const auto& inner) { return read_piece(inner, piece); }));
    vocabulary.tokens.push_back(std::move(piece.token));
    vocabulary.scores.push_back(piece.score);
    vocabulary.token_types.push_back(piece.type);
    return {};
  };
  PACELINE_RETURN_IF_ERROR(each_field(bytes, [&](const ProtobufField& field) -> Status {
    if (field.number == 1) return add_piece(field);
    if (field.number == 2) {
      return each_field_of(field, "trainer_spec", [&](const auto& inner) -> Status {
        read_trainer(inner, specification);
        return {};
      });
    }
    if (field.number != 3) return {};
    return each_field_of(field, "normalizer_spec", [&](const auto& inner) -> Status {
      read_normalizer(inner, specification);
      return {};
    });
  }));
  if (vocabulary.tokens.empty()) return fail(ErrorCode::kDataLoss, "has no pieces");
  PACELINE_RETURN_IF_ERROR(check(specification));
  vocabulary.unknown_id = id_or_none(specification.unknown_id);
  vocabulary.bos_id = id_or_none(specification.bos_id);
  vocabulary.eos_id = id_or_none(specification.eos_id);
  vocabulary.padding_id = id_or_none(specification.padding_id);
  vocabulary.add_space_prefix = specification.add_dummy_prefix;
  return vocabulary;
}

Result<Vocabulary> read_sentencepiece(const std::filesystem::path& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string bytes, system::read_text_file(path, kMaxFileBytes));
  auto vocabulary = parse_sentencepiece(bytes);
  if (!vocabulary) return fail(vocabulary.error().with_context(path.string()));
  return vocabulary;
}

}  // namespace paceline::model
