#include "compiler/weight_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/version.h"
#include "compiler/weight_journal.h"
#include "compiler/weight_layout.h"
#include "model/foreign_text.h"
#include "shard/parallel.h"
#include "shard/sha256.h"

namespace paceline::compiler {
namespace {

constexpr std::string_view kPhase = "weights";
/// Floats converted at a time: they stay in a core's own cache.
constexpr std::uint64_t kChunkFloats = 64 * 1024;

/// What one thread needs for a block.
struct Workspace {
  std::vector<std::byte> source;
  std::vector<float> floats;
  std::vector<float> decoded;
  std::vector<std::int8_t> scratch;
  std::vector<std::byte> values;
  std::vector<std::uint16_t> scales;
  std::vector<std::uint16_t> half_points;
  std::vector<std::uint8_t> nibbles;
  std::vector<std::byte> packed;  ///< u4 zero points

  EncodedRows rows(const WeightEncoding& encoding, std::uint64_t begin, std::uint64_t count) {
    const std::size_t groups = encoding.groups();
    const auto part = [&](auto& all) {
      return all.empty() ? std::span(all) : std::span(all).subspan(begin * groups, count * groups);
    };
    return {std::span(values).subspan(begin * encoding.row_bytes(), count * encoding.row_bytes()),
            part(scales), part(half_points), part(nibbles)};
  }

  void resize(const WeightEncoding& encoding, std::uint64_t count) {
    const std::size_t groups = count * encoding.groups();
    values.resize(count * encoding.row_bytes());
    scales.resize(groups);
    half_points.resize(encoding.zero_points == ZeroPoints::kHalf ? groups : 0);
    nibbles.resize(encoding.zero_points == ZeroPoints::kNibble ? groups : 0);
  }

  /// As they are stored.
  std::span<std::byte> zero_points() {
    if (nibbles.empty()) return std::as_writable_bytes(std::span(half_points));
    // Of an odd number, the last nibble has no partner.
    std::vector<std::int8_t> even(nibbles.begin(), nibbles.end());
    even.resize((even.size() + 1) / 2 * 2);
    packed.resize(even.size() / 2);
    pack_nibbles(even, packed.data());
    return packed;
  }
};

/// A region of a block's bytes in the .bin.
struct Region {
  std::uint64_t offset;
  std::span<std::byte> bytes;
};

class WeightWriter {
 public:
  WeightWriter(const model::TensorSource& source, const WriteOptions& options, WeightLayout& layout,
               BinFile& bin, Progress& progress)
      : source_(source), options_(options), layout_(layout), bin_(bin), progress_(progress) {}

  /// Writes all blocks that the journal does not have.
  Status run();
  /// Those whose scales did not fit their form.
  std::set<std::string> misfits() const;
  StoredWeights take();

 private:
  std::uint32_t threads() const;
  Status open_journal();
  Status do_block(std::uint64_t index);
  Result<bool> is_there(const WeightJob& job, const WeightBlock& block, Workspace& space,
                        const shard::Sha256Digest& digest);
  Status encode(const WeightJob& job, const WeightBlock& block, Workspace& space, RowFacts& facts);
  EncodeStatus encode_chunk(const WeightJob& job, const WeightBlock& chunk,
                            std::span<const std::byte> stored, const EncodedRows& rows,
                            Workspace& space, RowFacts& facts);
  tl::unexpected<Error> refuse(const WeightJob& job, const WeightBlock& chunk, EncodeStatus status,
                               const Workspace& space) const;
  std::vector<Region> regions(const WeightJob& job, const WeightBlock& block,
                              Workspace& space) const;
  Status finish(std::uint64_t index, const BlockRecord& record, std::uint64_t source_bytes,
                bool is_new);
  std::unique_ptr<Workspace> borrow();
  void give_back(std::unique_ptr<Workspace> space);

  const model::TensorSource& source_;
  const WriteOptions& options_;
  WeightLayout& layout_;
  BinFile& bin_;
  Progress& progress_;
  std::optional<WeightJournal> journal_;
  std::vector<RowFacts> facts_;  ///< by block: sums are the same in whatever order blocks end
  std::mutex mutex_;             ///< guards what follows, journal and progress
  std::vector<std::unique_ptr<Workspace>> idle_;
  std::uint64_t done_bytes_ = 0;
};

std::unique_ptr<Workspace> WeightWriter::borrow() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Workspace>();
  auto space = std::move(idle_.back());
  idle_.pop_back();
  return space;
}

void WeightWriter::give_back(std::unique_ptr<Workspace> space) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(space));
}

std::uint32_t WeightWriter::threads() const {
  const std::uint64_t floats = 3 * kChunkFloats * sizeof(float);
  const std::uint64_t each = layout_.largest_block_bytes() + floats;
  const std::uint64_t most = std::max<std::uint64_t>(options_.memory_bytes / each, 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(options_.jobs, most));
}

Status WeightWriter::open_journal() {
  if (options_.journal.empty()) return {};
  const std::string identity =
      fmt::format("{}\n{}\nmeasured {}\n{}", kVersion, options_.source_identity, options_.measure,
                  layout_.describe());
  PACELINE_ASSIGN_OR_RETURN(
      journal_, WeightJournal::open(options_.journal, shard::sha256(std::string_view(identity)),
                                    layout_.blocks));
  return {};
}

Status WeightWriter::run() {
  PACELINE_RETURN_IF_ERROR(open_journal());
  // Bytes of other work would stay in the gaps between regions.
  const std::uint64_t recorded = journal_ ? journal_->recorded() : 0;
  if (recorded == 0) PACELINE_RETURN_IF_ERROR(bin_.clear());
  if (recorded != 0) {
    progress_.note(fmt::format("going on with an interrupted compile: {} of {} blocks are there",
                               recorded, layout_.blocks));
  }
  facts_.assign(layout_.blocks, {});
  return shard::for_each_index(layout_.blocks, threads(),
                               [this](std::size_t index) { return do_block(index); });
}

Status WeightWriter::do_block(std::uint64_t index) {
  const WeightBlock block = layout_.block(index);
  const WeightJob& job = layout_.jobs[block.job];
  const std::uint64_t source_bytes = (block.end - block.begin) * job.reader.row_bytes();
  auto space = borrow();
  space->resize(job.weight.encoding, block.end - block.begin);
  if (journal_ && journal_->records()[index]) {
    const BlockRecord& record = *journal_->records()[index];
    PACELINE_ASSIGN_OR_RETURN(const bool there, is_there(job, block, *space, record.digest));
    if (there) {
      give_back(std::move(space));
      return finish(index, record, source_bytes, false);
    }
  }
  BlockRecord record;
  PACELINE_RETURN_IF_ERROR(encode(job, block, *space, record.facts));
  shard::Sha256 hash;
  for (const Region& region : regions(job, block, *space)) {
    PACELINE_RETURN_IF_ERROR(bin_.write(region.offset, region.bytes));
    if (journal_) hash.update(region.bytes);
  }
  if (journal_) record.digest = hash.finish();
  give_back(std::move(space));
  return finish(index, record, source_bytes, true);
}

std::vector<Region> WeightWriter::regions(const WeightJob& job, const WeightBlock& block,
                                          Workspace& space) const {
  const StoredWeight& weight = job.weight;
  const std::uint64_t groups = block.begin * weight.encoding.groups();
  const auto scales = std::as_writable_bytes(std::span(space.scales));
  std::vector<Region> result = {
      {weight.values.offset + block.begin * weight.encoding.row_bytes(), space.values}};
  if (weight.encoding.group == 0) return result;
  result.push_back({weight.scales.offset + groups * sizeof(std::uint16_t), scales});
  if (weight.encoding.zero_points == ZeroPoints::kNone) return result;
  const std::uint64_t bits = weight.zero_points.type.bitwidth();
  result.push_back({weight.zero_points.offset + groups * bits / 8, space.zero_points()});
  return result;
}

/// Whether the .bin has the block's bytes; they come into `space` on the way.
Result<bool> WeightWriter::is_there(const WeightJob& job, const WeightBlock& block,
                                    Workspace& space, const shard::Sha256Digest& digest) {
  shard::Sha256 hash;
  for (const Region& region : regions(job, block, space)) {
    const Status read = bin_.read(region.offset, region.bytes);
    if (!read && read.error().code() == ErrorCode::kDataLoss) return false;
    PACELINE_RETURN_IF_ERROR(read);
    hash.update(region.bytes);
  }
  return hash.finish() == digest;
}

Status WeightWriter::encode(const WeightJob& job, const WeightBlock& block, Workspace& space,
                            RowFacts& facts) {
  const WeightEncoding& encoding = job.weight.encoding;
  const std::uint64_t row_bytes = job.reader.row_bytes();
  space.source.resize((block.end - block.begin) * row_bytes);
  PACELINE_RETURN_IF_ERROR(job.reader.read(block.begin, space.source));
  const std::uint64_t step = std::max<std::uint64_t>(kChunkFloats / encoding.columns, 1);
  for (std::uint64_t begin = block.begin; begin < block.end; begin += step) {
    const WeightBlock chunk = {block.job, begin, std::min(begin + step, block.end)};
    const std::uint64_t count = chunk.end - begin;
    const auto stored =
        std::span(space.source).subspan((begin - block.begin) * row_bytes, count * row_bytes);
    const EncodedRows rows = space.rows(encoding, begin - block.begin, count);
    RowFacts chunk_facts;
    const EncodeStatus status = encode_chunk(job, chunk, stored, rows, space, chunk_facts);
    if (status != EncodeStatus::kDone) return refuse(job, chunk, status, space);
    facts.add(chunk_facts);
  }
  return {};
}

EncodeStatus WeightWriter::encode_chunk(const WeightJob& job, const WeightBlock& chunk,
                                        std::span<const std::byte> stored, const EncodedRows& rows,
                                        Workspace& space, RowFacts& facts) {
  const WeightEncoding& encoding = job.weight.encoding;
  const bool is_kept = encoding.is_kept();
  EncodeStatus status = EncodeStatus::kDone;
  if (is_kept) status = encode_kept(encoding, stored, rows, facts);
  if (is_kept && status == EncodeStatus::kDone && !options_.measure) return status;
  space.floats.resize((chunk.end - chunk.begin) * encoding.columns);
  job.reader.to_floats(chunk.begin, stored, space.floats);
  if (!is_kept) return encode_floats(encoding, space.floats, rows, space.scratch, facts);
  if (status != EncodeStatus::kDone) return status;
  space.decoded.resize(space.floats.size());
  decode_rows(encoding, rows, space.decoded);
  const std::uint64_t group = encoding.group == 0 ? encoding.columns : encoding.group;
  measure_errors(space.floats, space.decoded, group, facts.errors);
  return status;
}

tl::unexpected<Error> WeightWriter::refuse(const WeightJob& job, const WeightBlock& chunk,
                                           EncodeStatus status, const Workspace& space) const {
  const std::string name = model::in_quotes(job.tensor->pieces[0].source->name);
  if (status == EncodeStatus::kScaleNotFinite) {
    return fail(ErrorCode::kDataLoss, "{}: tensor {}: has a scale that is not finite",
                source_.name(), name);
  }
  const std::uint64_t columns = job.weight.encoding.columns;
  std::size_t index = 0;  // of the first value that is not finite, else of the largest
  for (std::size_t i = 0; i < space.floats.size(); ++i) {
    if (std::abs(space.floats[i]) > std::abs(space.floats[index])) index = i;
    if (std::isfinite(space.floats[i])) continue;
    index = i;
    break;
  }
  const std::uint64_t row = job.tensor->order.source_row(chunk.begin + index / columns);
  if (status == EncodeStatus::kNotFinite) {
    return fail(ErrorCode::kDataLoss, "{}: tensor {}: has a value in row {} that is not finite",
                source_.name(), name, row);
  }
  return fail(ErrorCode::kInvalidArgument,
              "{}: tensor {}: has a value of {} in row {}, too large for {}; try --weights f32",
              source_.name(), name, space.floats[index], row,
              job.weight.encoding.type.get_type_name());
}

Status WeightWriter::finish(std::uint64_t index, const BlockRecord& record,
                            std::uint64_t source_bytes, bool is_new) {
  const std::lock_guard lock(mutex_);
  facts_[index] = record.facts;
  if (journal_ && is_new) PACELINE_RETURN_IF_ERROR(journal_->add(index, record));
  done_bytes_ += source_bytes;
  if (progress_.update(kPhase, done_bytes_, layout_.source_bytes)) return {};
  return fail(ErrorCode::kCancelled, "cancelled while the weights were converted");
}

std::set<std::string> WeightWriter::misfits() const {
  std::vector<RowFacts> by_job(layout_.jobs.size());
  for (std::uint64_t i = 0; i < layout_.blocks; ++i) by_job[layout_.block(i).job].add(facts_[i]);
  std::set<std::string> names;
  for (std::size_t i = 0; i < by_job.size(); ++i) {
    const WeightJob& job = layout_.jobs[i];
    if (!scales_fit(job.weight.encoding, by_job[i])) names.insert(job.tensor->name);
  }
  return names;
}

StoredWeights WeightWriter::take() {
  for (std::uint64_t i = 0; i < layout_.blocks; ++i) {
    layout_.jobs[layout_.block(i).job].weight.errors.add(facts_[i].errors);
  }
  StoredWeights weights;
  for (WeightJob& job : layout_.jobs) weights.emplace(job.tensor->name, std::move(job.weight));
  return weights;
}

}  // namespace

Status check_free_space(const std::filesystem::path& path, std::uint64_t needed) {
  std::error_code code;
  const auto space = std::filesystem::space(path.parent_path(), code);
  if (code || space.available >= needed) return {};
  return fail(
      ErrorCode::kResourceExhausted,
      "{}: No space left: {:.2f} GB are free on its disk, expected {:.2f} GB for the weights",
      path.string(), static_cast<double>(space.available) / 1e9, static_cast<double>(needed) / 1e9);
}

Result<StoredWeights> write_weights(const model::TensorSource& source, const TensorPlan& plan,
                                    BinFile& bin, Progress& progress, const WriteOptions& options) {
  LayoutOptions how = {resolved(options.weights, plan),
                       {options.fp8_block_rows, options.fp8_block_columns}};
  while (true) {
    bin.restart();
    auto layout = lay_out_weights(source, plan, how, bin);
    if (!layout) return fail(layout.error().with_context(source.name()));
    if (how.plain.empty()) {
      for (const auto& remark : remarks_on(*layout, how.weights)) progress.note(remark);
    }
    PACELINE_ASSIGN_OR_RETURN(const std::uint64_t there, bin.allocated_bytes());
    PACELINE_RETURN_IF_ERROR(
        check_free_space(bin.path(), bin.size() > there ? bin.size() - there : 0));
    WeightWriter writer(source, options, *layout, bin, progress);
    PACELINE_RETURN_IF_ERROR(writer.run());
    const std::set<std::string> misfits = writer.misfits();
    if (misfits.empty()) {
      PACELINE_RETURN_IF_ERROR(bin.flush());
      return writer.take();
    }
    // A block's scales are known when it is read. They fit in all files but artificial ones, so a
    // second pass is better than a look at all scales before the first.
    how.plain.insert(misfits.begin(), misfits.end());
  }
}

}  // namespace paceline::compiler
