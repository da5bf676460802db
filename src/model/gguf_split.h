// The names of a GGUF's parts where it is split over several files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace paceline::model {

/// DIRECTORY/MODEL-00001-of-00003.gguf: part 0 of 3.
struct GgufPartName {
  std::filesystem::path stem;  ///< DIRECTORY/MODEL
  std::uint32_t part = 0;
  std::uint32_t count = 0;

  /// The path of another part, from 0.
  std::filesystem::path path_of(std::uint32_t other) const;
};

/// None where the name is not of that form.
std::optional<GgufPartName> parse_gguf_part_name(const std::filesystem::path& path);

}  // namespace paceline::model
