#include "system/memory.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "system/files.h"

namespace paceline::system {
namespace {

TEST(MemoryTest, TheMachineHasMemoryAndThisProcessUsesSomeOfIt) {
  const auto machine = machine_memory();
  ASSERT_TRUE(machine) << machine.error().message();
  EXPECT_GT(machine->total_bytes, 64U << 20);
  EXPECT_LE(machine->available_bytes, machine->total_bytes);
}

TEST(MemoryTest, TouchedMemoryCountsAsAnonymous) {
  constexpr std::size_t kBytes = 64U << 20;
  const auto before = process_memory();
  ASSERT_TRUE(before) << before.error().message();
  std::vector<char> block(kBytes, 1);
  const auto after = process_memory();
  ASSERT_TRUE(after) << after.error().message();
  EXPECT_GE(after->anonymous_bytes, before->anonymous_bytes + kBytes / 2);
  EXPECT_EQ(block.back(), 1);
}

TEST(MemoryTest, PagesOfAMappedFileAreGivenBackAndReadAgain) {
  constexpr std::size_t kBytes = 32U << 20;
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("paceline-memory-{}", ::getpid());
  std::ofstream(path) << std::string(kBytes, 'x');
  const auto mapped = MappedFile::open(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(mapped) << mapped.error().message();
  const auto touch = [&] {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < kBytes; i += 512) sum += std::to_integer<int>(mapped->bytes()[i]);
    EXPECT_EQ(sum, kBytes / 512 * 'x');
    return process_memory().value().resident_bytes;
  };
  const std::uint64_t touched = touch();
  release_memory(mapped->bytes());
  EXPECT_LT(process_memory().value().resident_bytes, touched - kBytes / 2);
  touch();
}

}  // namespace
}  // namespace paceline::system
