// A model published as a GGUF file: its metadata by key, its configuration, vocabulary and tensors.
//
// Reads versions 2 and 3, little-endian, in one file or split over several. Architectures are the
// rows of gguf_architectures.h. gguf_parser.h checks the structure. Every error is one line that
// names the file, the field, and what was expected.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/error.h"
#include "model/decoder_config.h"
#include "model/gguf_parser.h"
#include "model/tensor_source.h"
#include "model/vocabulary.h"
#include "system/files.h"
#include "system/input_file.h"

namespace paceline::model {

/// Lifecycle: open, then read; the files stay mapped as long as it lives, for their metadata.
/// Thread-safe.
class GgufFile final : public TensorSource {
 public:
  /// Where the file is one part of several (metadata split.count), opens them all: any one of them
  /// may be given. The metadata is the first part's.
  static Result<std::unique_ptr<GgufFile>> open(const std::filesystem::path& path);
  /// A single file from bytes in memory; `name` stands for the file in messages.
  static Result<std::unique_ptr<GgufFile>> from_memory(std::string name,
                                                       std::vector<std::byte> bytes);

  const std::string& name() const override { return name_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  Status read(const TensorInfo& tensor, std::uint64_t offset,
              std::span<std::byte> into) const override;
  Result<const TensorInfo*> find(std::string_view name) const override;

  bool has(std::string_view key) const { return values_.contains(key); }
  // Typed look-ups: kNotFound where the key is missing, kDataLoss where it is of another type.
  /// Any integer type, not negative.
  Result<std::uint64_t> unsigned_value(std::string_view key) const;
  Result<float> float_value(std::string_view key) const;  ///< f32 or f64, finite
  Result<bool> bool_value(std::string_view key) const;
  Result<std::string> string_value(std::string_view key) const;
  Result<std::vector<std::string>> string_array(std::string_view key) const;
  Result<std::vector<float>> float_array(std::string_view key) const;       ///< of f32
  Result<std::vector<std::int32_t>> int_array(std::string_view key) const;  ///< of i32 or u32
  Result<std::vector<bool>> bool_array(std::string_view key) const;
  bool is_array(std::string_view key) const;

  /// The configuration, checked to be coherent: sizes in sane ranges, heads that divide. Whether
  /// the tensors fit it is the builder's to check. kUnimplemented names an architecture or a
  /// feature that is not built.
  Result<DecoderConfig> decoder_config() const;
  Result<Vocabulary> vocabulary() const;

 private:
  using Storage = std::variant<system::MappedFile, std::vector<std::byte>>;
  struct Part {
    Storage storage;
    std::optional<system::InputFile> input;  ///< the mapped file, to be read; none from memory
    std::span<const std::byte> file;
  };
  struct Place {
    std::size_t part = 0;
    std::uint64_t offset = 0;
  };

  explicit GgufFile(std::string name) : name_(std::move(name)) {}
  /// Parses a part and takes its tensors and, in place of an earlier one's, its metadata.
  Status add_part(const std::string& name, Part part);
  Status add_file(const std::filesystem::path& path);
  Status add_all_parts(const std::filesystem::path& path, std::uint64_t count);
  Status make_index();
  Result<std::uint64_t> part_count() const;
  const Place& place(const TensorInfo& tensor) const;
  Result<const GgufValue*> value(std::string_view key, std::string_view expected) const;
  Result<const GgufValue*> array(std::string_view key, GgufType element_type) const;
  [[nodiscard]] tl::unexpected<Error> wrong_type(std::string_view key, const GgufValue& value,
                                                 std::string_view expected) const;

  std::string name_;
  std::vector<Part> parts_;
  GgufValues values_;                ///< of the first part
  std::vector<TensorInfo> tensors_;  ///< part by part, in the order of the tables
  std::vector<Place> places_;        ///< as `tensors_`
  std::unordered_map<std::string_view, std::size_t> index_;  ///< of tensors, by name
};

}  // namespace paceline::model
