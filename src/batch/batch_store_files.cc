// The store's files: those that were uploaded, and those of results.
#include <utility>

#include "batch/batch_store.h"
#include "system/random_ids.h"

namespace paceline::batch {
namespace {

constexpr const char* kFileColumns =
    "SELECT id, purpose, filename, bytes, created_at, expires_at FROM files ";

FileFacts read_file(const Statement& row) {
  return {row.text(0),    row.text(1),    row.text(2),
          row.integer(3), row.integer(4), row.maybe_integer(5)};
}

}  // namespace

tl::unexpected<Error> unknown_id(const char* what, const std::string& id) {
  return fail(ErrorCode::kNotFound, "no such {}: '{}'", what, id.substr(0, 100));
}

Result<FileFacts> BatchStore::add_file(const std::string& tenant, FileFacts facts,
                                       std::string_view content) {
  const std::lock_guard lock(mutex_);
  facts.id = system::random_id("file-");
  facts.bytes = static_cast<std::int64_t>(content.size());
  PACELINE_RETURN_IF_ERROR(database_.transact([&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(auto used,
                              database_.prepare("SELECT COALESCE(SUM(bytes), 0) FROM files"));
    PACELINE_RETURN_IF_ERROR(used.step());
    if (used.integer(0) + facts.bytes > options_.max_bytes) {
      return fail(ErrorCode::kResourceExhausted,
                  "the store holds {} bytes of at most {}; delete files that are not needed",
                  used.integer(0), options_.max_bytes);
    }
    PACELINE_RETURN_IF_ERROR(used.finish());
    PACELINE_ASSIGN_OR_RETURN(
        auto insert,
        database_.prepare("INSERT INTO files(id, tenant, purpose, filename, bytes, created_at, "
                          "expires_at, content) VALUES(?, ?, ?, ?, ?, ?, ?, ?)"));
    insert.bind(facts.id).bind(tenant).bind(facts.purpose).bind(facts.filename);
    insert.bind(facts.bytes).bind(facts.created_at).bind(facts.expires_at).bind(content);
    return insert.finish();
  }));
  return facts;
}

Result<std::int64_t> BatchStore::file_place(const std::string& tenant, const std::string& id) {
  PACELINE_ASSIGN_OR_RETURN(
      auto find, database_.prepare("SELECT place FROM files WHERE id = ? AND tenant = ?"));
  find.bind(id).bind(tenant);
  PACELINE_ASSIGN_OR_RETURN(const bool is_there, find.step());
  if (!is_there) return unknown_id("file", id);
  return find.integer(0);
}

Result<std::vector<FileFacts>> BatchStore::files(const std::string& tenant, const Page& page) {
  const std::lock_guard lock(mutex_);
  std::int64_t place = page.ascending ? 0 : INT64_MAX;
  if (!page.after.empty()) {
    PACELINE_ASSIGN_OR_RETURN(place, file_place(tenant, page.after));
  }
  const char* order = page.ascending ? "AND place > ? ORDER BY place LIMIT ?"
                                     : "AND place < ? ORDER BY place DESC LIMIT ?";
  PACELINE_ASSIGN_OR_RETURN(
      auto select, database_.prepare(std::string(kFileColumns) + "WHERE tenant = ? " + order));
  select.bind(tenant).bind(place).bind(page.limit);
  std::vector<FileFacts> found;
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool has_row, select.step());
    if (!has_row) return found;
    found.push_back(read_file(select));
  }
}

Result<FileFacts> BatchStore::file(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  PACELINE_ASSIGN_OR_RETURN(
      auto select, database_.prepare(std::string(kFileColumns) + "WHERE id = ? AND tenant = ?"));
  select.bind(id).bind(tenant);
  PACELINE_ASSIGN_OR_RETURN(const bool is_there, select.step());
  if (!is_there) return unknown_id("file", id);
  return read_file(select);
}

Result<std::string> BatchStore::content(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  PACELINE_ASSIGN_OR_RETURN(
      auto select,
      database_.prepare(
          "SELECT content, batch, outcome, bytes FROM files WHERE id = ? AND tenant = ?"));
  select.bind(id).bind(tenant);
  PACELINE_ASSIGN_OR_RETURN(const bool is_there, select.step());
  if (!is_there) return unknown_id("file", id);
  const auto batch = select.maybe_integer(1);
  if (!batch) return select.text(0);
  PACELINE_ASSIGN_OR_RETURN(
      auto lines,
      database_.prepare("SELECT result FROM lines WHERE batch = ? AND outcome = ? ORDER BY line"));
  lines.bind(*batch).bind(select.integer(2));
  std::string text;
  text.reserve(static_cast<std::size_t>(select.integer(3)));
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool has_row, lines.step());
    if (!has_row) return text;
    text += lines.text(0);
    text += '\n';
  }
}

Status BatchStore::drop_file(std::int64_t place) {
  PACELINE_ASSIGN_OR_RETURN(
      auto results, database_.prepare("UPDATE lines SET result = NULL WHERE (batch, outcome) = "
                                      "(SELECT batch, outcome FROM files WHERE place = ?)"));
  PACELINE_RETURN_IF_ERROR(results.bind(place).finish());
  PACELINE_ASSIGN_OR_RETURN(auto drop, database_.prepare("DELETE FROM files WHERE place = ?"));
  return drop.bind(place).finish();
}

Status BatchStore::delete_file(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  return database_.transact([&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto place, file_place(tenant, id));
    return drop_file(place);
  });
}

Status BatchStore::delete_expired(std::int64_t now) {
  const std::lock_guard lock(mutex_);
  return database_.transact([&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(auto select,
                              database_.prepare("SELECT place FROM files WHERE expires_at <= ?"));
    select.bind(now);
    std::vector<std::int64_t> places;
    while (true) {
      PACELINE_ASSIGN_OR_RETURN(const bool has_row, select.step());
      if (!has_row) break;
      places.push_back(select.integer(0));
    }
    for (const auto place : places) PACELINE_RETURN_IF_ERROR(drop_file(place));
    return {};
  });
}

}  // namespace paceline::batch
