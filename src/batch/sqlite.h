// SQLite, as far as this folder needs it: statements whose errors are values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace paceline::batch {

class Statement;

/// One database file, for one process alone: a second one is refused while the first has it open.
/// What is committed survives the process and the machine. Thread-compatible.
class Database {
 public:
  /// kAlreadyExists where another process has it; else the error names the file.
  static Result<Database> open(const std::filesystem::path& path);

  Status run(const char* sql);
  Result<Statement> prepare(std::string_view sql);
  /// Rows that the last statement changed.
  std::int64_t changes() const;

  /// `work` as a whole or not at all.
  Status transact(const std::function<Status()>& work);

  /// Called before each commit; an error is taken for the end of the process: nothing is committed
  /// any more. For tests.
  std::function<Status()> before_commit = {};

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  explicit Database(sqlite3* database) : database_(database) {}
  Error error(std::string_view doing) const;
  friend class Statement;

  std::unique_ptr<sqlite3, Close> database_;
};

/// Lifecycle: prepared, values bound in order, then stepped row by row. The database must outlive
/// it.
class Statement {
 public:
  Statement& bind(std::int64_t value);
  Statement& bind(std::string_view text);
  Statement& bind(const std::optional<std::int64_t>& value);
  Statement& bind(std::nullptr_t);

  /// False after the last row.
  Result<bool> step();
  /// To the end, for statements without rows.
  Status finish();

  std::int64_t integer(int column) const;
  std::optional<std::int64_t> maybe_integer(int column) const;
  std::string text(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(Database& database, sqlite3_stmt* statement)
      : database_(&database), statement_(statement) {}
  friend class Database;

  Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
};

}  // namespace paceline::batch
