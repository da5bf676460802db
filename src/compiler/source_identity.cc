#include "compiler/source_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

/// "NAME" of "NAME-00001-of-00003.gguf"; the whole name of any other.
std::string_view split_stem(std::string_view name) {
  constexpr std::string_view kTail = "-00001-of-00003.gguf";
  if (name.size() <= kTail.size()) return name;
  const std::string_view tail = name.substr(name.size() - kTail.size());
  for (std::size_t i = 0; i < kTail.size(); ++i) {
    const bool is_digit = tail[i] >= '0' && tail[i] <= '9';
    if (kTail[i] >= '0' && kTail[i] <= '9' ? !is_digit : tail[i] != kTail[i]) return name;
  }
  return name.substr(0, name.size() - kTail.size());
}

}  // namespace

std::string source_identity(const fs::path& source) {
  std::error_code code;
  const fs::path absolute = fs::absolute(source, code).lexically_normal();
  const bool is_directory = fs::is_directory(absolute, code);
  const std::string file = absolute.filename().string();
  const std::string_view stem = split_stem(file);
  std::set<std::string> lines;
  for (const auto& entry :
       fs::directory_iterator(is_directory ? absolute : absolute.parent_path(), code)) {
    const std::string name = entry.path().filename().string();
    if (!is_directory && name != file && (stem == file || split_stem(name) != stem)) continue;
    struct stat info = {};
    if (::stat(entry.path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    lines.insert(fmt::format("{} {} {}.{:09}\n", name, info.st_size, info.st_mtim.tv_sec,
                             info.st_mtim.tv_nsec));
  }
  std::string text = absolute.string() + "\n";
  for (const std::string& line : lines) text += line;
  return text;
}

}  // namespace paceline::compiler
