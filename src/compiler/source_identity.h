// By what a resumed compile knows that its source is the one that it began with.
#pragma once

#include <filesystem>
#include <string>

namespace paceline::compiler {

/// Name, size and time of change of each file that `source` stands for: of a directory all files in
/// it, of a part of a split GGUF ("NAME-00001-of-00003.gguf") all parts. One line each, sorted.
/// What cannot be looked at is left out: reading it will say so.
std::string source_identity(const std::filesystem::path& source);

}  // namespace paceline::compiler
