#include "system/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace paceline::system {
namespace {

constexpr std::size_t kMaxLineBytes = 64 << 10;
constexpr auto kGrace = std::chrono::seconds(2);

/// In the child, between fork and exec: only async-signal-safe calls.
[[noreturn]] void run_program(char* const* arguments, int output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);  // the parent ended before prctl
  // A group of its own: Ctrl-C at the terminal is for the parent, which then ends its children.
  ::setpgid(0, 0);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::execv(arguments[0], arguments);
  ::_exit(127);
}

}  // namespace

Result<ChildProcess> ChildProcess::spawn(const std::vector<std::string>& arguments) {
  if (::access(arguments.front().c_str(), X_OK) != 0) {
    return fail(ErrorCode::kNotFound, "{}: cannot be started: {}", arguments.front(),
                std::strerror(errno));
  }
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(ErrorCode::kResourceExhausted, "cannot make a pipe: {}", std::strerror(errno));
  }
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) run_program(pointers.data(), ends[1], parent);
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return fail(ErrorCode::kResourceExhausted, "cannot start a process: {}", std::strerror(errno));
  }
  return ChildProcess(pid, ends[0]);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)),
      buffered_(std::move(other.buffered_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(output_, other.output_);
  std::swap(buffered_, other.buffered_);
  return *this;
}

ChildProcess::~ChildProcess() { end(); }

void ChildProcess::end() {
  if (output_ >= 0) ::close(output_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  ::kill(pid_, SIGCONT);  // one that was stopped would not see it
  const auto deadline = Deadline::after(kGrace);
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (deadline.has_passed()) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Result<std::string> ChildProcess::read_line(Deadline deadline) {
  for (;;) {
    if (const std::size_t end = buffered_.find('\n'); end != std::string::npos) {
      std::string line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      return line;
    }
    if (buffered_.size() > kMaxLineBytes) {
      return fail(ErrorCode::kDataLoss, "process {} printed a line of over {} bytes", pid_,
                  kMaxLineBytes);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left());
    pollfd ready = {output_, POLLIN, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(left.count()));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) {
      return fail(ErrorCode::kDeadlineExceeded, "process {} printed nothing in time", pid_);
    }
    std::array<char, 4096> chunk = {};
    const ssize_t size = ::read(output_, chunk.data(), chunk.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return fail(ErrorCode::kUnavailable, "process {} ended", pid_);
    buffered_.append(chunk.data(), static_cast<std::size_t>(size));
  }
}

Result<std::string> own_program_path() {
  std::array<char, 4096> path = {};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0) {
    return fail(ErrorCode::kInternal, "/proc/self/exe: cannot be read: {}", std::strerror(errno));
  }
  return std::string(path.data(), static_cast<std::size_t>(size));
}

}  // namespace paceline::system
