#include "batch/sqlite.h"

#include <sqlite3.h>

#include <utility>

namespace paceline::batch {
namespace {

ErrorCode code_of(int result) {
  switch (result & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::kAlreadyExists;
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
    case SQLITE_NOMEM:
      return ErrorCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorCode::kDataLoss;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return ErrorCode::kPermissionDenied;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }
void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Error Database::error(std::string_view doing) const {
  return Error(code_of(sqlite3_extended_errcode(database_.get())),
               fmt::format("{}: {}", doing, sqlite3_errmsg(database_.get())));
}

Result<Database> Database::open(const std::filesystem::path& path) {
  sqlite3* opened = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int result = sqlite3_open_v2(path.c_str(), &opened, flags, nullptr);
  Database database(opened);
  if (result != SQLITE_OK) return fail(database.error(path.string()));
  // One that was just killed may have it for a moment.
  sqlite3_busy_timeout(opened, 1000);
  // The lock is taken by the first write, and kept until the process ends, however it ends.
  for (const char* sql :
       {"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL",
        "PRAGMA secure_delete=ON", "BEGIN EXCLUSIVE", "COMMIT"}) {
    const auto done = database.run(sql);
    if (done) continue;
    if (done.error().code() != ErrorCode::kAlreadyExists) {
      return fail(done.error().with_context(path.string()));
    }
    return fail(ErrorCode::kAlreadyExists, "{}: is in use by another server", path.string());
  }
  return database;
}

Status Database::run(const char* sql) {
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return fail(error("the store"));
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &statement,
                         nullptr) != SQLITE_OK) {
    return fail(error("the store"));
  }
  return Statement(*this, statement);
}

std::int64_t Database::changes() const { return sqlite3_changes64(database_.get()); }

Status Database::transact(const std::function<Status()>& work) {
  PACELINE_RETURN_IF_ERROR(run("BEGIN IMMEDIATE"));
  Status done = work();
  if (done && before_commit) done = before_commit();
  if (done) done = run("COMMIT");
  if (!done) (void)run("ROLLBACK");
  return done;
}

Statement& Statement::bind(std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), ++bound_, value);
  return *this;
}
Statement& Statement::bind(std::string_view text) {
  // Too large a text is told by step(), as SQLite then has no value for it.
  sqlite3_bind_text64(statement_.get(), ++bound_, text.data(), text.size(), SQLITE_TRANSIENT,
                      SQLITE_UTF8);
  return *this;
}
Statement& Statement::bind(const std::optional<std::int64_t>& value) {
  return value ? bind(*value) : bind(nullptr);
}
Statement& Statement::bind(std::nullptr_t) {
  sqlite3_bind_null(statement_.get(), ++bound_);
  return *this;
}

Result<bool> Statement::step() {
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return fail(database_->error("the store"));
}

Status Statement::finish() {
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool has_row, step());
    if (!has_row) return {};
  }
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}
std::optional<std::int64_t> Statement::maybe_integer(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}
std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

}  // namespace paceline::batch
