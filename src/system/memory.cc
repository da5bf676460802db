#include "system/memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::system {
namespace {

/// The first value, in bytes, of a "Name:   123 kB" line of a /proc file.
Result<std::uint64_t> proc_kilobytes(const char* path, std::string_view name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const std::size_t first = line.find_first_of("0123456789");
    std::uint64_t value = 0;
    if (first != std::string::npos &&
        std::from_chars(line.data() + first, line.data() + line.size(), value).ec == std::errc()) {
      return value * 1024;
    }
  }
  return fail(ErrorCode::kInternal, "{}: has no value {}", path, name);
}

std::optional<std::uint64_t> number_in_file(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // also where the file says "max"
}

/// The value of a "name 123" line; 0 where there is none.
std::uint64_t value_in_file(const char* path, std::string_view wanted) {
  std::ifstream file(path);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == wanted) return value;
  }
  return 0;
}

}  // namespace

Result<MachineMemory> machine_memory() {
  MachineMemory memory;
  PACELINE_ASSIGN_OR_RETURN(memory.total_bytes, proc_kilobytes("/proc/meminfo", "MemTotal"));
  PACELINE_ASSIGN_OR_RETURN(memory.available_bytes,
                            proc_kilobytes("/proc/meminfo", "MemAvailable"));
  const auto limit = number_in_file("/sys/fs/cgroup/memory.max");
  const auto used = number_in_file("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    // Pages of files that nobody used lately count as used, but are given back when needed.
    const std::uint64_t reclaimable = value_in_file("/sys/fs/cgroup/memory.stat", "inactive_file");
    const std::uint64_t held = *used - std::min(*used, reclaimable);
    memory.total_bytes = std::min(memory.total_bytes, *limit);
    memory.available_bytes = std::min(memory.available_bytes, *limit - std::min(*limit, held));
  }
  return memory;
}

Result<ProcessMemory> process_memory() {
  ProcessMemory memory;
  PACELINE_ASSIGN_OR_RETURN(memory.resident_bytes, proc_kilobytes("/proc/self/status", "VmRSS"));
  PACELINE_ASSIGN_OR_RETURN(memory.anonymous_bytes, proc_kilobytes("/proc/self/status", "RssAnon"));
  return memory;
}

void release_memory(std::span<const std::byte> mapped) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto data = reinterpret_cast<std::uintptr_t>(mapped.data());
  const std::uintptr_t begin = (data + page - 1) / page * page;
  const std::uintptr_t end = (data + mapped.size()) / page * page;
  // It is advice: where it is not taken, memory stays as it was.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  ::malloc_trim(0);
}

}  // namespace paceline::system
