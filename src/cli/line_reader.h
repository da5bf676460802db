// Lines of the standard input that a signal can interrupt.
#pragma once

#include <atomic>
#include <string>

namespace paceline::cli {

/// Reads a descriptor line by line; std::getline would go on waiting where the signal was handled
/// by another thread, or between two looks at the flag. Thread-compatible; does not own the
/// descriptor.
class LineReader {
 public:
  LineReader(int descriptor, const std::atomic<bool>& interrupted)
      : descriptor_(descriptor), interrupted_(interrupted) {}

  /// Takes the next line, without its end; the last one needs none. False at the end of the input
  /// and once `interrupted` is set.
  bool next(std::string& line);

 private:
  /// False where no more comes.
  bool read_more();

  const int descriptor_;
  const std::atomic<bool>& interrupted_;
  std::string buffer_;  ///< read and not taken yet
};

}  // namespace paceline::cli
