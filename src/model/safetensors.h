// A model published as safetensors: one file, or several with an index.
//
// Files are read at offsets and never mapped. Opening reads the headers only; the parts are checked
// as files of their own (safetensors_header.h) and against the index. Errors are one line that
// names the file, the tensor or field, and what was expected.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "model/tensor_source.h"
#include "system/input_file.h"

namespace paceline::model {

/// Which part each tensor lies in, as model.safetensors.index.json says it.
struct SafetensorsIndex {
  std::map<std::string, std::string> parts;  ///< a tensor's name to a file's
};

/// File names must be plain: an index can name nothing outside its directory.
Result<SafetensorsIndex> parse_safetensors_index(std::string_view text);

/// Lifecycle: open, then read. Thread-safe.
class SafetensorsModel final : public TensorSource {
 public:
  /// Opens DIRECTORY/model.safetensors, or else what DIRECTORY/model.safetensors.index.json names.
  static Result<std::unique_ptr<SafetensorsModel>> open(const std::filesystem::path& directory);

  /// The directory.
  const std::string& name() const override { return name_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  Status read(const TensorInfo& tensor, std::uint64_t offset,
              std::span<std::byte> into) const override;
  Result<const TensorInfo*> find(std::string_view name) const override;

 private:
  struct Place {
    std::size_t part = 0;
    std::uint64_t offset = 0;
  };

  explicit SafetensorsModel(std::string name) : name_(std::move(name)) {}
  Status add_part(const std::filesystem::path& path);
  Status add_indexed_parts(const std::filesystem::path& directory);
  Status make_index();

  std::string name_;
  std::vector<system::InputFile> parts_;
  std::vector<TensorInfo> tensors_;  ///< part by part, as they lie there
  std::vector<Place> places_;        ///< as `tensors_`
  std::unordered_map<std::string_view, std::size_t> index_;
};

}  // namespace paceline::model
