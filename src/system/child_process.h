// A child process whose standard output is read line by line; it dies with its parent.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace paceline::system {

/// Lifecycle: spawn -> read_line... -> the destructor ends the child (SIGTERM, then SIGKILL after
/// two seconds) and reaps it. Thread-compatible; move-only.
class ChildProcess {
 public:
  /// `arguments[0]` is the program's path. Standard error and input are the parent's and
  /// /dev/null. kNotFound where the program cannot be started.
  static Result<ChildProcess> spawn(const std::vector<std::string>& arguments);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  /// The next line without its end. kUnavailable where the output ended before one,
  /// kDeadlineExceeded; lines are at most 64 KiB.
  Result<std::string> read_line(Deadline deadline);

 private:
  ChildProcess(pid_t pid, int output) : pid_(pid), output_(output) {}
  void end();

  pid_t pid_ = -1;
  int output_ = -1;
  std::string buffered_;
};

/// The path of this very program, to start it again.
Result<std::string> own_program_path();

}  // namespace paceline::system
