// Writes small safetensors directories for tests: right by default, wrong where a test says so.
//
// Not part of the product.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace paceline::model {

/// The bytes of a file: the header's length, the header, the data.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return file.append(header).append(data);
}

/// One tensor's entry in a header.
inline std::string safetensors_entry(std::string_view name, std::string_view type,
                                     std::string_view shape, std::uint64_t begin,
                                     std::uint64_t end) {
  return fmt::format(R"("{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}})", name,
                     type, shape, begin, end);
}

/// A directory that is removed with its files.
class TestDirectory {
 public:
  TestDirectory() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            fmt::format("paceline-model-{}-{}", ::getpid(), count++);
    std::filesystem::create_directories(path_);
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  ~TestDirectory() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace paceline::model
