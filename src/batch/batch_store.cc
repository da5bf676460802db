#include "batch/batch_store.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/responses.h"
#include "system/random_ids.h"

namespace paceline::batch {
namespace {

using api::Json;

constexpr int kWaiting = 0;
constexpr int kSucceeded = 1;
constexpr int kFailed = 2;

/// Output and error files have no content of their own: it is the lines of one outcome.
constexpr const char* kTables = R"(
  CREATE TABLE IF NOT EXISTS files(
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, tenant TEXT NOT NULL,
    purpose TEXT NOT NULL, filename TEXT NOT NULL, bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL, expires_at INTEGER, content TEXT, batch INTEGER, outcome INTEGER);
  CREATE TABLE IF NOT EXISTS batches(
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, tenant TEXT NOT NULL,
    status TEXT NOT NULL, object TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS lines(
    batch INTEGER NOT NULL, line INTEGER NOT NULL, custom_id TEXT NOT NULL, body TEXT,
    outcome INTEGER NOT NULL, result TEXT, PRIMARY KEY(batch, line)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS waiting_lines ON lines(batch, line) WHERE outcome = 0;
  CREATE INDEX IF NOT EXISTS open_batches ON batches(status);
  PRAGMA user_version = 1;
)";
Result<Json> stored_object(const std::string& text) {
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (object.is_object()) return object;
  return fail(ErrorCode::kDataLoss, "the store: a batch is damaged");
}

Json new_batch(const BatchRequest& request) {
  return {{"id", system::random_id("batch_")},
          {"object", "batch"},
          {"endpoint", request.endpoint},
          {"errors", nullptr},
          {"input_file_id", request.input_file_id},
          {"completion_window", request.completion_window},
          {"status", "in_progress"},
          {"output_file_id", nullptr},
          {"error_file_id", nullptr},
          {"created_at", request.created_at},
          {"in_progress_at", request.created_at},
          {"expires_at", request.expires_at},
          {"finalizing_at", nullptr},
          {"completed_at", nullptr},
          {"failed_at", nullptr},
          {"expired_at", nullptr},
          {"cancelling_at", nullptr},
          {"cancelled_at", nullptr},
          {"usage", to_json(LineUsage())},
          {"metadata", request.metadata}};
}

}  // namespace

Result<std::unique_ptr<BatchStore>> BatchStore::open(const std::filesystem::path& directory,
                                                     Options options) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (!failed) {
    // What clients upload is nobody else's.
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, failed);
  }
  if (failed) {
    return fail(ErrorCode::kPermissionDenied, "{}: cannot be made: {}", directory.string(),
                failed.message());
  }
  PACELINE_ASSIGN_OR_RETURN(auto database, Database::open(directory / "batches.sqlite"));
  std::unique_ptr<BatchStore> store(new BatchStore(std::move(database), std::move(options)));
  PACELINE_RETURN_IF_ERROR(store->make_tables());
  store->database_.before_commit = store->options_.before_commit;
  return store;
}

Status BatchStore::make_tables() {
  PACELINE_ASSIGN_OR_RETURN(auto version, database_.prepare("PRAGMA user_version"));
  PACELINE_RETURN_IF_ERROR(version.step());
  if (version.integer(0) > 1) {
    return fail(ErrorCode::kFailedPrecondition,
                "the store has format {}, and this version knows 1; use another --state-dir",
                version.integer(0));
  }
  PACELINE_RETURN_IF_ERROR(version.finish());
  return database_.transact([this] { return database_.run(kTables); });
}

Status BatchStore::insert_line(std::int64_t batch, std::int64_t number, const RequestLine& line) {
  PACELINE_ASSIGN_OR_RETURN(
      auto insert, database_.prepare("INSERT INTO lines(batch, line, custom_id, body, outcome, "
                                     "result) VALUES(?, ?, ?, ?, ?, ?)"));
  insert.bind(batch).bind(number).bind(line.custom_id);
  if (line.error.empty()) {
    insert.bind(line.body).bind(std::int64_t{kWaiting}).bind(nullptr);
  } else {
    insert.bind(nullptr).bind(std::int64_t{kFailed});
    insert.bind(
        error_line(system::random_id("batch_req_"), line.custom_id, "invalid_request", line.error));
  }
  return insert.finish();
}

Status BatchStore::insert_lines(std::int64_t batch, const std::vector<RequestLine>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    PACELINE_RETURN_IF_ERROR(insert_line(batch, static_cast<std::int64_t>(i) + 1, lines[i]));
  }
  return {};
}

Result<Json> BatchStore::create_batch(const BatchRequest& request,
                                      const std::vector<RequestLine>& lines) {
  const std::lock_guard lock(mutex_);
  const Json object = new_batch(request);
  std::int64_t number = 0;
  PACELINE_RETURN_IF_ERROR(database_.transact([&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(auto insert,
                              database_.prepare("INSERT INTO batches(id, tenant, status, object) "
                                                "VALUES(?, ?, 'in_progress', ?) RETURNING place"));
    insert.bind(object["id"].get<std::string>()).bind(request.tenant).bind(api::dump(object));
    PACELINE_RETURN_IF_ERROR(insert.step());
    number = insert.integer(0);
    PACELINE_RETURN_IF_ERROR(insert.finish());
    return insert_lines(number, lines);
  }));
  return with_counts(number, object);
}

Result<Json> BatchStore::with_counts(std::int64_t number, Json object) {
  PACELINE_ASSIGN_OR_RETURN(
      auto count, database_.prepare("SELECT COUNT(*), COALESCE(SUM(outcome = 1), 0), "
                                    "COALESCE(SUM(outcome = 2), 0) FROM lines WHERE batch = ?"));
  count.bind(number);
  PACELINE_RETURN_IF_ERROR(count.step());
  object["request_counts"] = {
      {"total", count.integer(0)}, {"completed", count.integer(1)}, {"failed", count.integer(2)}};
  return object;
}

Result<BatchStore::OpenBatch> BatchStore::find_batch(const std::string& tenant,
                                                     const std::string& id) {
  PACELINE_ASSIGN_OR_RETURN(
      auto select,
      database_.prepare("SELECT place, tenant, object FROM batches WHERE id = ? AND tenant = ?"));
  select.bind(id).bind(tenant);
  PACELINE_ASSIGN_OR_RETURN(const bool is_there, select.step());
  if (!is_there) return unknown_id("batch", id);
  PACELINE_ASSIGN_OR_RETURN(auto object, stored_object(select.text(2)));
  return OpenBatch{select.integer(0), select.text(1), std::move(object)};
}

Result<Json> BatchStore::batch(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  PACELINE_ASSIGN_OR_RETURN(auto found, find_batch(tenant, id));
  return with_counts(found.number, std::move(found.object));
}

Result<std::vector<Json>> BatchStore::batches(const std::string& tenant, const Page& page) {
  const std::lock_guard lock(mutex_);
  std::int64_t place = INT64_MAX;
  if (!page.after.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const auto after, find_batch(tenant, page.after));
    place = after.number;
  }
  PACELINE_ASSIGN_OR_RETURN(
      auto select, database_.prepare("SELECT place, object FROM batches WHERE tenant = ? AND "
                                     "place < ? ORDER BY place DESC LIMIT ?"));
  select.bind(tenant).bind(place).bind(page.limit);
  std::vector<Json> found;
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool has_row, select.step());
    if (!has_row) return found;
    PACELINE_ASSIGN_OR_RETURN(auto object, stored_object(select.text(1)));
    PACELINE_ASSIGN_OR_RETURN(auto counted, with_counts(select.integer(0), std::move(object)));
    found.push_back(std::move(counted));
  }
}

Status BatchStore::save(std::int64_t batch, const Json& object) {
  PACELINE_ASSIGN_OR_RETURN(
      auto update, database_.prepare("UPDATE batches SET status = ?, object = ? WHERE place = ?"));
  update.bind(object["status"].get<std::string>()).bind(api::dump(object)).bind(batch);
  return update.finish();
}

Result<Json> BatchStore::cancel(const std::string& tenant, const std::string& id,
                                std::int64_t now) {
  const std::lock_guard lock(mutex_);
  PACELINE_ASSIGN_OR_RETURN(auto found, find_batch(tenant, id));
  const std::string status = found.object["status"];
  if (status != "in_progress" && status != "cancelling") {
    return fail(ErrorCode::kFailedPrecondition, "the batch is {} and cannot be cancelled", status);
  }
  found.object["status"] = "cancelling";
  if (found.object["cancelling_at"].is_null()) found.object["cancelling_at"] = now;
  PACELINE_RETURN_IF_ERROR(database_.transact([&] { return save(found.number, found.object); }));
  return with_counts(found.number, std::move(found.object));
}

Result<std::vector<WaitingLine>> BatchStore::waiting(std::int64_t now, std::size_t limit) {
  const std::lock_guard lock(mutex_);
  PACELINE_ASSIGN_OR_RETURN(
      auto select,
      database_.prepare("SELECT lines.batch, line, tenant, object ->> 'endpoint', custom_id, body "
                        "FROM batches JOIN lines ON lines.batch = place WHERE status = "
                        "'in_progress' AND object ->> 'expires_at' > ? AND outcome = 0 "
                        "ORDER BY lines.batch, line LIMIT ?"));
  select.bind(now).bind(static_cast<std::int64_t>(limit));
  std::vector<WaitingLine> found;
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool has_row, select.step());
    if (!has_row) return found;
    found.push_back({{select.integer(0), select.integer(1)},
                     select.text(2),
                     select.text(3),
                     select.text(4),
                     select.text(5)});
  }
}

Status BatchStore::record(const std::vector<FinishedLine>& lines) {
  const std::lock_guard lock(mutex_);
  return database_.transact([&]() -> Status {
    std::map<std::int64_t, LineUsage> used;
    for (const FinishedLine& line : lines) {
      PACELINE_ASSIGN_OR_RETURN(
          auto update,
          database_.prepare("UPDATE lines SET outcome = ?, result = ?, body = NULL WHERE batch = ? "
                            "AND line = ? AND outcome = 0"));
      update.bind(std::int64_t{line.is_success ? kSucceeded : kFailed}).bind(line.answer.text);
      update.bind(line.key.batch).bind(line.key.line);
      PACELINE_RETURN_IF_ERROR(update.finish());
      // A line that had its result before has no second one, and is counted once.
      if (database_.changes() > 0) used[line.key.batch] += line.answer.usage;
    }
    for (const auto& [batch, usage] : used) PACELINE_RETURN_IF_ERROR(add_usage(batch, usage));
    return {};
  });
}

Status BatchStore::add_usage(std::int64_t batch, const LineUsage& usage) {
  if (usage == LineUsage()) return {};
  PACELINE_ASSIGN_OR_RETURN(auto select,
                            database_.prepare("SELECT object FROM batches WHERE place = ?"));
  select.bind(batch);
  PACELINE_ASSIGN_OR_RETURN(const bool is_there, select.step());
  if (!is_there) return {};
  PACELINE_ASSIGN_OR_RETURN(auto object, stored_object(select.text(0)));
  PACELINE_RETURN_IF_ERROR(select.finish());
  LineUsage sum = object.contains("usage") ? read_usage(object["usage"]) : LineUsage();
  object["usage"] = to_json(sum += usage);
  return save(batch, object);
}

Result<std::vector<BatchStore::OpenBatch>> BatchStore::open_batches() {
  PACELINE_ASSIGN_OR_RETURN(
      auto select, database_.prepare("SELECT place, tenant, object FROM batches WHERE status IN "
                                     "('in_progress', 'cancelling') ORDER BY place"));
  std::vector<OpenBatch> found;
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool has_row, select.step());
    if (!has_row) return found;
    PACELINE_ASSIGN_OR_RETURN(auto object, stored_object(select.text(2)));
    found.push_back({select.integer(0), select.text(1), std::move(object)});
  }
}

Status BatchStore::settle(std::int64_t now, const std::set<std::int64_t>& in_flight) {
  const std::lock_guard lock(mutex_);
  PACELINE_ASSIGN_OR_RETURN(auto batches, open_batches());
  for (OpenBatch& batch : batches) {
    if (in_flight.contains(batch.number)) continue;
    PACELINE_RETURN_IF_ERROR(settle_one(std::move(batch), now));
  }
  return {};
}

Status BatchStore::settle_one(OpenBatch batch, std::int64_t now) {
  PACELINE_ASSIGN_OR_RETURN(
      auto left,
      database_.prepare("SELECT EXISTS(SELECT 1 FROM lines WHERE batch = ? AND outcome = 0)"));
  left.bind(batch.number);
  PACELINE_RETURN_IF_ERROR(left.step());
  const bool has_waiting = left.integer(0) != 0;
  PACELINE_RETURN_IF_ERROR(left.finish());
  const bool is_cancelled = batch.object["status"] == "cancelling";
  const bool is_late = batch.object["expires_at"].get<std::int64_t>() <= now;
  if (has_waiting && !is_cancelled && !is_late) return {};
  return database_.transact([&]() -> Status {
    std::string status = "completed";
    if (is_cancelled) {
      status = "cancelled";
      PACELINE_RETURN_IF_ERROR(close_waiting(batch.number, "batch_cancelled",
                                             "The batch was cancelled before this was asked"));
    } else if (has_waiting) {
      status = "expired";
      PACELINE_RETURN_IF_ERROR(close_waiting(batch.number, "batch_expired",
                                             "The batch's completion window ended before this"));
    }
    batch.object["status"] = status;
    batch.object["finalizing_at"] = now;
    batch.object[status + "_at"] = now;
    PACELINE_RETURN_IF_ERROR(publish(batch, now));
    return save(batch.number, batch.object);
  });
}

Status BatchStore::close_waiting(std::int64_t batch, const char* code, const char* message) {
  PACELINE_ASSIGN_OR_RETURN(
      auto select,
      database_.prepare("SELECT line, custom_id FROM lines WHERE batch = ? AND outcome = 0"));
  select.bind(batch);
  std::vector<std::pair<std::int64_t, std::string>> lines;
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool has_row, select.step());
    if (!has_row) break;
    lines.emplace_back(select.integer(0), select.text(1));
  }
  for (const auto& [line, custom_id] : lines) {
    PACELINE_ASSIGN_OR_RETURN(
        auto update, database_.prepare("UPDATE lines SET outcome = 2, result = ?, body = NULL "
                                       "WHERE batch = ? AND line = ?"));
    update.bind(error_line(system::random_id("batch_req_"), custom_id, code, message));
    PACELINE_RETURN_IF_ERROR(update.bind(batch).bind(line).finish());
  }
  return {};
}

Status BatchStore::publish(OpenBatch& batch, std::int64_t now) {
  const std::string id = batch.object["id"];
  for (const int outcome : {kSucceeded, kFailed}) {
    PACELINE_ASSIGN_OR_RETURN(
        auto count,
        database_.prepare("SELECT COUNT(*), COALESCE(SUM(LENGTH(CAST(result AS BLOB)) + 1), 0) "
                          "FROM lines WHERE batch = ? AND outcome = ?"));
    count.bind(batch.number).bind(std::int64_t{outcome});
    PACELINE_RETURN_IF_ERROR(count.step());
    if (count.integer(0) == 0) continue;
    const bool is_output = outcome == kSucceeded;
    const std::string file = system::random_id("file-");
    PACELINE_ASSIGN_OR_RETURN(
        auto insert,
        database_.prepare("INSERT INTO files(id, tenant, purpose, filename, bytes, created_at, "
                          "expires_at, batch, outcome) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    insert.bind(file).bind(batch.tenant).bind("batch_output");
    insert.bind(id + (is_output ? "_output.jsonl" : "_error.jsonl")).bind(count.integer(1));
    insert.bind(now).bind(now + options_.result_seconds);
    PACELINE_RETURN_IF_ERROR(insert.bind(batch.number).bind(std::int64_t{outcome}).finish());
    batch.object[is_output ? "output_file_id" : "error_file_id"] = file;
  }
  return {};
}

}  // namespace paceline::batch
