#include "batch/batch_runner.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "http/local_exchange.h"
#include "system/random_ids.h"

namespace paceline::batch {
namespace {

constexpr int kTooMany = 429;
constexpr int kUnavailable = 503;

http::Request request_of(WaitingLine& line) {
  http::Request request;
  request.id = system::random_id("batch_req_");
  request.method = "POST";
  request.path = std::move(line.endpoint);
  request.body = std::move(line.body);
  request.tenant = std::move(line.tenant);
  return request;
}

}  // namespace

/// One line as a request, and its answer.
class BatchRunner::LineExchange final : public http::LocalExchange {
 public:
  LineExchange(WaitingLine line, std::shared_ptr<Inbox> inbox)
      : LocalExchange(request_of(line)),
        key_(line.key),
        custom_id_(std::move(line.custom_id)),
        inbox_(std::move(inbox)) {}
  ~LineExchange() override { put(500, kNoAnswer); }

  void respond(http::Response response) override { put(response.status, response.body); }
  // Lines are never asked as streams.
  void begin_stream(http::Response /*head*/) override {}
  bool write(std::string_view /*bytes*/) override { return false; }
  void end() override { put(500, kNoAnswer); }
  void abort() override { put(500, kNoAnswer); }

 private:
  static constexpr const char* kNoAnswer =
      R"({"error":{"message":"There was no answer","type":"server_error","param":null,"code":"internal"}})";

  void put(int status, std::string_view body) {
    if (is_answered_.exchange(true)) return;
    forget_gone();
    const std::lock_guard lock(inbox_->mutex);
    if (status == kTooMany || status == kUnavailable) {
      inbox_->refused.push_back(key_);
    } else {
      inbox_->finished.push_back(
          {key_, status == 200, answer_line(request_.id, custom_id_, status, body)});
    }
    inbox_->has_news = true;
    inbox_->changed.notify_all();
  }

  const LineKey key_;
  const std::string custom_id_;
  const std::shared_ptr<Inbox> inbox_;
  std::atomic<bool> is_answered_ = false;
};

BatchRunner::BatchRunner(BatchStore& store, Executor execute, RunnerOptions options)
    : store_(store),
      execute_(std::move(execute)),
      options_(std::move(options)),
      inbox_(std::make_shared<Inbox>()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

BatchRunner::~BatchRunner() {
  thread_.request_stop();
  thread_.join();
  for (const auto& [key, line] : in_flight_) {
    if (const auto exchange = line.lock()) exchange->go();
  }
}

void BatchRunner::wake() {
  const std::lock_guard lock(inbox_->mutex);
  inbox_->has_news = true;
  inbox_->changed.notify_all();
}

void BatchRunner::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const bool is_well = advance();
    Duration wait = options_.look_every;
    const TimePoint now = std::chrono::steady_clock::now();
    if (!is_well) asks_from_ = now + options_.retry_after;
    if (asks_from_ > now) wait = std::min(wait, asks_from_ - now);
    std::unique_lock lock(inbox_->mutex);
    // After a failure of the store its answers wait; to look at once would spin.
    inbox_->changed.wait_for(lock, stop, wait, [&] { return is_well && inbox_->has_news; });
    inbox_->has_news = false;
  }
}

bool BatchRunner::advance() {
  Status done = take_answers();
  if (done) done = ask_more();
  if (!done) spdlog::error("batches: {}", done.error().message());
  return done.has_value();
}

Status BatchRunner::take_answers() {
  std::vector<FinishedLine> finished;
  std::vector<LineKey> refused;
  {
    const std::lock_guard lock(inbox_->mutex);
    finished = inbox_->finished;
    refused = std::exchange(inbox_->refused, {});
  }
  if (!refused.empty()) asks_from_ = std::chrono::steady_clock::now() + options_.retry_after;
  for (const LineKey& key : refused) in_flight_.erase(key);
  if (finished.empty()) return {};
  PACELINE_RETURN_IF_ERROR(store_.record(finished));
  for (const FinishedLine& line : finished) in_flight_.erase(line.key);
  const std::lock_guard lock(inbox_->mutex);
  inbox_->finished.erase(inbox_->finished.begin(),
                         inbox_->finished.begin() + static_cast<std::ptrdiff_t>(finished.size()));
  return {};
}

Status BatchRunner::ask_more() {
  const TimePoint now = std::chrono::steady_clock::now();
  if (now >= asks_from_ && in_flight_.size() < options_.max_in_flight) {
    // Those in flight are waiting, too, as far as the store knows.
    PACELINE_ASSIGN_OR_RETURN(auto lines,
                              store_.waiting(options_.now(), options_.max_in_flight * 2));
    for (WaitingLine& line : lines) {
      if (in_flight_.size() >= options_.max_in_flight) break;
      if (!in_flight_.contains(line.key)) ask(std::move(line));
    }
  }
  if (now >= looks_at_) {
    looks_at_ = now + options_.look_every;
    PACELINE_RETURN_IF_ERROR(store_.delete_expired(options_.now()));
  }
  std::set<std::int64_t> busy;
  for (const auto& [key, line] : in_flight_) busy.insert(key.batch);
  return store_.settle(options_.now(), busy);
}

void BatchRunner::ask(WaitingLine line) {
  const LineKey key = line.key;
  const std::string endpoint = line.endpoint;
  const auto exchange = std::make_shared<LineExchange>(std::move(line), inbox_);
  in_flight_[key] = exchange;
  execute_(endpoint, exchange);
}

}  // namespace paceline::batch
