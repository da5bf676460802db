// Files and batches on disk: what is committed here survives the server, however it ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "base/error.h"
#include "batch/batch_lines.h"
#include "batch/sqlite.h"

namespace paceline::batch {

struct FileFacts {
  std::string id = {};
  std::string purpose = "batch";
  std::string filename = {};
  std::int64_t bytes = 0;
  std::int64_t created_at = 0;  ///< Unix seconds
  std::optional<std::int64_t> expires_at = {};
};

/// A page of a list: what comes after `after`, the newest first.
struct Page {
  std::string after = {};  ///< an id; empty: from the begin
  std::int64_t limit = 20;
  bool ascending = false;
};

struct BatchRequest {
  std::string tenant = {};
  std::string endpoint = {};
  std::string input_file_id = {};
  std::string completion_window = "24h";
  std::int64_t created_at = 0;
  std::int64_t expires_at = 0;
  api::Json metadata = nullptr;
};

/// One line by its place: of which batch, and where in it.
struct LineKey {
  std::int64_t batch = 0;
  std::int64_t line = 0;
  friend auto operator<=>(const LineKey&, const LineKey&) = default;
};

struct WaitingLine {
  LineKey key = {};
  std::string tenant = {};
  std::string endpoint = {};
  std::string custom_id = {};
  std::string body = {};
};

struct FinishedLine {
  LineKey key = {};
  bool is_success = false;
  AnsweredLine answer = {};
};

/// kNotFound, with what it was to be.
tl::unexpected<Error> unknown_id(const char* what, const std::string& id);

/// A line is waiting until its result is committed: there is no third state on disk, so what was
/// in flight when the server died is asked again, and nothing else. A result is never replaced.
/// Tenants do not see each other's files and batches. Thread-safe.
class BatchStore {
 public:
  struct Options {
    std::int64_t max_bytes = std::int64_t{4} << 30;  ///< of all uploaded files
    std::int64_t result_seconds =
        std::int64_t{30} * 86400;                ///< that output and error files are kept
    std::function<Status()> before_commit = {};  ///< for tests: sqlite.h
  };
  /// Makes DIRECTORY and the file in it, for this user alone.
  static Result<std::unique_ptr<BatchStore>> open(const std::filesystem::path& directory,
                                                  Options options);

  /// The id is made here. kResourceExhausted where the store is full.
  Result<FileFacts> add_file(const std::string& tenant, FileFacts facts, std::string_view content);
  Result<std::vector<FileFacts>> files(const std::string& tenant, const Page& page);
  Result<FileFacts> file(const std::string& tenant, const std::string& id);
  Result<std::string> content(const std::string& tenant, const std::string& id);
  Status delete_file(const std::string& tenant, const std::string& id);
  /// Those whose time is over.
  Status delete_expired(std::int64_t now);

  /// As the API shows it.
  Result<api::Json> create_batch(const BatchRequest& request,
                                 const std::vector<RequestLine>& lines);
  Result<api::Json> batch(const std::string& tenant, const std::string& id);
  Result<std::vector<api::Json>> batches(const std::string& tenant, const Page& page);
  /// What is in flight still gets its result; kFailedPrecondition where the batch has ended.
  Result<api::Json> cancel(const std::string& tenant, const std::string& id, std::int64_t now);

  /// Of batches in progress that have time left, the oldest first.
  Result<std::vector<WaitingLine>> waiting(std::int64_t now, std::size_t limit);
  /// All of them in one commit.
  Status record(const std::vector<FinishedLine>& lines);
  /// Ends the batches that have nothing left to do, were cancelled, or took too long, unless one of
  /// their lines is in flight: lines that were not asked get an error line.
  Status settle(std::int64_t now, const std::set<std::int64_t>& in_flight);

 private:
  struct OpenBatch {
    std::int64_t number = 0;
    std::string tenant = {};
    api::Json object = {};
  };
  BatchStore(Database database, Options options)
      : database_(std::move(database)), options_(std::move(options)) {}
  Status make_tables();
  Result<std::int64_t> file_place(const std::string& tenant, const std::string& after);
  Result<std::int64_t> batch_place(const std::string& tenant, const std::string& after);
  Status insert_lines(std::int64_t batch, const std::vector<RequestLine>& lines);
  Status insert_line(std::int64_t batch, std::int64_t number, const RequestLine& line);
  Result<OpenBatch> find_batch(const std::string& tenant, const std::string& id);
  Result<api::Json> with_counts(std::int64_t number, api::Json object);
  Status save(std::int64_t batch, const api::Json& object);
  Status add_usage(std::int64_t batch, const LineUsage& usage);
  Result<std::vector<OpenBatch>> open_batches();
  Status settle_one(OpenBatch batch, std::int64_t now);
  Status close_waiting(std::int64_t batch, const char* code, const char* message);
  Status publish(OpenBatch& batch, std::int64_t now);
  Status drop_file(std::int64_t place);

  std::mutex mutex_;
  Database database_;
  Options options_;
};

}  // namespace paceline::batch
