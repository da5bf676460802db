#include "compiler/weight_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "system/errno_error.h"

namespace paceline::compiler {
namespace {

using system::fail_errno;

constexpr char kMagic[8] = {'P', 'A', 'C', 'E', 'J', 'R', 'N', '1'};

struct Header {
  char magic[8];
  shard::Sha256Digest identity;
};
static_assert(sizeof(Header) == 40);

/// As it lies in the file, of the machine that wrote it.
struct Record {
  std::uint64_t block;
  double sums[4];
  float largest[4];
  shard::Sha256Digest digest;
  std::array<std::uint8_t, 8> checksum;  ///< of all before it
};
static_assert(sizeof(Record) == 8 + 32 + 16 + 32 + 8);

std::array<std::uint8_t, 8> checksum(const Record& record) {
  const auto bytes = std::as_bytes(std::span(&record, 1)).first(offsetof(Record, checksum));
  const shard::Sha256Digest digest = shard::sha256(bytes);
  std::array<std::uint8_t, 8> result = {};
  std::copy_n(digest.begin(), result.size(), result.begin());
  return result;
}

Record to_record(std::uint64_t block, const BlockRecord& from) {
  const ErrorSums& errors = from.facts.errors;
  Record record = {block,
                   {errors.squares, errors.error_squares, errors.weighted_squares,
                    errors.weighted_error_squares},
                   {errors.largest_value, errors.largest_error, from.facts.largest_scale,
                    from.facts.largest_offset},
                   from.digest,
                   {}};
  record.checksum = checksum(record);
  return record;
}

BlockRecord from_record(const Record& record) {
  BlockRecord result;
  result.facts.errors = {record.sums[0], record.sums[1],    record.sums[2],
                         record.sums[3], record.largest[0], record.largest[1]};
  result.facts.largest_scale = record.largest[2];
  result.facts.largest_offset = record.largest[3];
  result.digest = record.digest;
  return result;
}

/// True where all of it came.
template <typename Struct>
bool read_whole(int descriptor, Struct& result) {
  auto* data = reinterpret_cast<char*>(&result);
  std::size_t done = 0;
  while (done < sizeof(Struct)) {
    const ssize_t count = ::read(descriptor, data + done, sizeof(Struct) - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

template <typename Struct>
bool write_whole(int descriptor, const Struct& value) {
  const auto* data = reinterpret_cast<const char*>(&value);
  std::size_t done = 0;
  while (done < sizeof(Struct)) {
    const ssize_t count = ::write(descriptor, data + done, sizeof(Struct) - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

WeightJournal::WeightJournal(WeightJournal&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      records_(std::move(other.records_)) {}

WeightJournal& WeightJournal::operator=(WeightJournal&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(records_, other.records_);
  return *this;
}

WeightJournal::~WeightJournal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<WeightJournal> WeightJournal::open(const std::filesystem::path& path,
                                          const shard::Sha256Digest& identity,
                                          std::uint64_t blocks) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return fail_errno(path, "open");
  WeightJournal journal(path, descriptor, blocks);
  PACELINE_RETURN_IF_ERROR(journal.load(identity));
  return journal;
}

Status WeightJournal::load(const shard::Sha256Digest& identity) {
  Header header = {};
  off_t good = 0;
  if (read_whole(descriptor_, header) && std::memcmp(header.magic, kMagic, sizeof(kMagic)) == 0 &&
      header.identity == identity) {
    good = sizeof(Header);
    for (Record record = {}; read_whole(descriptor_, record); good += sizeof(Record)) {
      if (record.checksum != checksum(record) || record.block >= records_.size()) break;
      records_[record.block] = from_record(record);
    }
  }
  // What is not ours to continue, or was cut short, is written over.
  if (::ftruncate(descriptor_, good) != 0 || ::lseek(descriptor_, good, SEEK_SET) != good) {
    return fail_errno(path_, "truncate");
  }
  if (good != 0) return {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.identity = identity;
  if (!write_whole(descriptor_, header)) return fail_errno(path_, "write");
  return {};
}

std::uint64_t WeightJournal::recorded() const {
  return static_cast<std::uint64_t>(std::count_if(
      records_.begin(), records_.end(), [](const auto& record) { return record.has_value(); }));
}

Status WeightJournal::add(std::uint64_t block, const BlockRecord& record) {
  if (!write_whole(descriptor_, to_record(block, record))) return fail_errno(path_, "write");
  return {};
}

}  // namespace paceline::compiler
