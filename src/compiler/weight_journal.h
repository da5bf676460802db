// Which blocks of weights are in the .bin already, so that an interrupted compile goes on where it
// was. The file lies beside the .bin while that is made.
//
// Magic and the identity of the work (SHA-256), then one record a block: number, facts, digest of
// its bytes, checksum. Records are appended as blocks are written, in any order; one that is cut
// short or damaged ends the file. Who reads a record must still compare the digest with the bytes:
// after a power cut the journal may know more than the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "compiler/weight_encoding.h"
#include "shard/sha256.h"

namespace paceline::compiler {

struct BlockRecord {
  RowFacts facts;
  shard::Sha256Digest digest = {};
};

/// Thread-compatible; move-only.
class WeightJournal {
 public:
  /// Takes up the records of `path` where they are of the same identity and of blocks below
  /// `blocks`; else begins anew.
  static Result<WeightJournal> open(const std::filesystem::path& path,
                                    const shard::Sha256Digest& identity, std::uint64_t blocks);
  WeightJournal(WeightJournal&& other) noexcept;
  WeightJournal& operator=(WeightJournal&& other) noexcept;
  ~WeightJournal();

  /// By block.
  const std::vector<std::optional<BlockRecord>>& records() const { return records_; }
  std::uint64_t recorded() const;
  Status add(std::uint64_t block, const BlockRecord& record);

 private:
  WeightJournal(std::filesystem::path path, int descriptor, std::uint64_t blocks)
      : path_(std::move(path)), descriptor_(descriptor), records_(blocks) {}
  Status load(const shard::Sha256Digest& identity);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<std::optional<BlockRecord>> records_;
};

}  // namespace paceline::compiler
