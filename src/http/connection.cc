#include "http/connection.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <string_view>
#include <utility>

#include "http/response_text.h"

namespace paceline::http {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kReadBytes = std::size_t{4} << 10;
constexpr std::size_t kBodyReadBytes = std::size_t{64} << 10;
/// Of requests sent ahead: when there is more, the client is not read until its answer is made.
constexpr std::size_t kMaxAheadBytes = std::size_t{64} << 10;

TimePoint now() { return std::chrono::steady_clock::now(); }

std::string_view view(const boost::beast::flat_buffer& buffer) {
  return {static_cast<const char*>(buffer.data().data()), buffer.size()};
}

Response busy_response(std::string_view why) {
  Response response = error_response(503, why, "overloaded");
  response.headers["retry-after"] = "1";
  return response;
}

}  // namespace

Connection::Connection(std::shared_ptr<ServerCore> core, std::shared_ptr<ByteStream> stream,
                       std::string remote)
    : core_(std::move(core)),
      stream_(std::move(stream)),
      remote_(std::move(remote)),
      timer_(*core_->context),
      phase_began_(now()) {}

void Connection::start() {
  arm_timer();
  stream_->handshake([self = shared_from_this()](const ErrorCode& error) {
    if (self->phase_ != Phase::kHandshake) return;
    if (error) return self->close();
    self->enter(Phase::kIdle);
    self->read_next();
  });
}

void Connection::enter(Phase phase) {
  const auto is_busy = [](Phase p) { return p == Phase::kBody || p == Phase::kAnswer; };
  if (is_busy(phase) && !is_busy(phase_)) ++core_->open_requests;
  if (!is_busy(phase) && is_busy(phase_)) --core_->open_requests;
  phase_ = phase;
  phase_began_ = now();
  if (phase != Phase::kClosed) arm_timer();
}

// Reading.

void Connection::read_next() {
  if (is_reading_ || phase_ == Phase::kHandshake || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kAnswer && input_.size() >= kMaxAheadBytes) return;
  is_reading_ = true;
  // Not into input_: what is parsed while the read is under way moves its bytes.
  const std::size_t bytes = phase_ == Phase::kBody ? kBodyReadBytes : kReadBytes;
  if (arriving_.size() != bytes) arriving_ = std::vector<char>(bytes);
  stream_->read_some(asio::buffer(arriving_),
                     [self = shared_from_this()](const ErrorCode& error, std::size_t count) {
                       self->on_read(error, count);
                     });
}

void Connection::on_read(const ErrorCode& error, std::size_t count) {
  is_reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (error) return on_read_end();
  if (phase_ == Phase::kClosing) return read_next();
  input_.commit(asio::buffer_copy(input_.prepare(count), asio::buffer(arriving_, count)));
  advance();
  read_next();
}

/// Also of a client that only ends its side: nobody who waits for an answer does that.
void Connection::on_read_end() {
  if (phase_ == Phase::kAnswer) return lose();
  close();
}

void Connection::advance() {
  while (parse_some()) {
  }
  arm_timer();
}

/// True where there may be more to parse.
bool Connection::parse_some() {
  if (phase_ == Phase::kIdle && input_.size() > 0) {
    parser_.emplace(core_->options.max_header_bytes);
    admission_ = {};
    record_ = {};
    request_began_ = now();
    enter(Phase::kHead);
  }
  if (phase_ != Phase::kHead && phase_ != Phase::kBody) return false;
  input_.consume(parser_->feed(view(input_)));
  return on_parsed();
}

bool Connection::on_parsed() {
  switch (parser_->state()) {
    case RequestParser::State::kFailed: {
      const Refusal refusal = parser_->refusal();
      refuse_request(refusal.status, refusal.message);
      return false;
    }
    case RequestParser::State::kHead:
      if (!parser_->has_begun() && input_.size() == 0) enter(Phase::kIdle);
      return false;
    case RequestParser::State::kBody:
      if (phase_ == Phase::kHead) {
        on_head();
        return phase_ == Phase::kBody && input_.size() > 0;
      }
      keep_body_within_budget();
      return false;
    case RequestParser::State::kComplete:
      if (phase_ == Phase::kHead) {
        on_head();
      } else if (keep_body_within_budget()) {
        dispatch();
      }
      return false;
  }
  return false;
}

void Connection::on_head() {
  const RequestHead& head = parser_->head();
  admission_ = admit(head, {core_->router, core_->hosts, core_->options.api_keys.get(),
                            core_->options.max_body_bytes});
  record_.path = admission_.request.path;
  record_.tenant = admission_.request.tenant;
  if (admission_.route != nullptr) record_.route = admission_.route->pattern;
  if (is_refused_) return answer_at_once(busy_response("too many connections"), false);
  if (core_->is_draining) {
    return answer_at_once(busy_response("the server is about to stop"), false);
  }
  const bool is_complete = parser_->state() == RequestParser::State::kComplete;
  if (admission_.answer) {
    // Behind an answer that came before the body, the body would be read as a request.
    return answer_at_once(std::move(*admission_.answer), is_complete && head.keeps_alive);
  }
  if (is_complete) return dispatch();
  parser_->limit_body(admission_.max_body_bytes);
  body_lease_ = ByteLease(core_->bodies);
  enter(Phase::kBody);
  if (admission_.expects_continue && input_.size() == 0) send_continue();
}

bool Connection::keep_body_within_budget() {
  if (body_lease_.grow_to(parser_->body_bytes())) return true;
  answer_at_once(busy_response("too many large requests at once"), false);
  return false;
}

void Connection::dispatch() {
  const Route& route = *admission_.route;
  begin_answer(parser_->head().keeps_alive);
  Request request = std::move(admission_.request);
  request.body = parser_->take_body();
  request.remote = remote_;
  auto exchange = std::make_shared<ServerExchange>(std::move(request), answer_,
                                                   std::exchange(body_lease_, ByteLease()));
  const bool is_queued = core_->pool.submit(
      [&route, exchange]() mutable { route.handler(std::exchange(exchange, nullptr)); });
  if (!is_queued) exchange->respond(busy_response("too many requests wait for an answer"));
}

void Connection::send_continue() {
  output_ = "HTTP/1.1 100 Continue\r\n\r\n";
  answer_bytes_ = 0;
  written_bytes_ = 0;
  write_rest();
}

// Answering.

/// Of what is no request, or was not sent in time: closes behind it.
void Connection::refuse_request(int status, std::string_view message) {
  answer_at_once(error_response(status, message), false);
}

void Connection::answer_at_once(Response response, bool keeps_alive) {
  begin_answer(keeps_alive);
  answer_->respond(std::move(response));
}

void Connection::begin_answer(bool keeps_alive) {
  const RequestHead& head = parser_->head();
  if (admission_.request.id.empty()) admission_.request.id = request_id_or_new({});
  record_.request_id = admission_.request.id;
  record_.method = head.method;
  record_.remote = remote_;
  AnswerTerms terms;
  terms.is_head = head.method == "HEAD";
  // Before the version is known, which is at the end of the head, the newest is assumed.
  terms.is_http11 = head.is_http11 || parser_->state() == RequestParser::State::kFailed;
  terms.keeps_alive = keeps_alive && keeps_alive_;
  terms.request_id = admission_.request.id;
  terms.headers = std::move(admission_.headers);
  terms.max_unsent_bytes = core_->options.max_unsent_bytes;
  answer_ = std::make_shared<Answer>(std::move(terms),
                                     [context = core_->context, weak = weak_from_this()] {
                                       asio::post(*context, [weak] {
                                         if (const auto self = weak.lock()) self->on_woken();
                                       });
                                     });
  is_last_output_ = false;
  is_cut_ = false;
  enter(Phase::kAnswer);
}

void Connection::on_woken() {
  if (phase_ != Phase::kAnswer) return;
  if (!answer_->acknowledge_wake()) return lose();
  take_output();
}

/// What has come while the last write was under way goes out together.
void Connection::take_output() {
  if (is_writing_ || phase_ != Phase::kAnswer || is_last_output_) return;
  Answer::Output output = answer_->take();
  is_last_output_ = output.is_last;
  is_cut_ = output.is_cut;
  if (!is_counted_stream_ && answer_->is_stream()) {
    is_counted_stream_ = true;
    ++core_->open_streams;
  }
  output_ = std::move(output.bytes);
  answer_bytes_ = output_.size();
  written_bytes_ = 0;
  if (!output_.empty()) return write_rest();
  if (is_last_output_) finish_answer();
}

void Connection::write_rest() {
  is_writing_ = true;
  last_written_ = now();
  arm_timer();
  const asio::const_buffer rest(output_.data() + written_bytes_, output_.size() - written_bytes_);
  stream_->write_some(rest, [self = shared_from_this()](const ErrorCode& error, std::size_t count) {
    self->on_written(error, count);
  });
}

void Connection::on_written(const ErrorCode& error, std::size_t count) {
  is_writing_ = false;
  if (!is_open()) return;
  if (error) return lose();
  written_bytes_ += count;
  record_.sent_bytes += count;
  if (written_bytes_ < output_.size()) return write_rest();
  if (answer_ && answer_bytes_ > 0) answer_->on_sent(answer_bytes_);
  output_.clear();
  if (is_last_output_ && phase_ == Phase::kAnswer) return finish_answer();
  take_output();
}

void Connection::finish_answer() {
  const bool keeps_alive = keeps_alive_ && !is_cut_ && answer_->keeps_alive();
  note_end(answer_->has_ended());
  answer_.reset();
  is_last_output_ = false;
  if (!keeps_alive) return begin_close(!is_cut_);
  if (input_.size() == 0) input_.shrink_to_fit();  // it may have held a large body
  enter(Phase::kIdle);
  advance();
  read_next();
}

void Connection::note_end(bool is_complete) {
  if (std::exchange(is_counted_stream_, false)) --core_->open_streams;
  record_.status = answer_->status();
  record_.is_stream = answer_->is_stream();
  record_.is_complete = is_complete;
  record_.duration = now() - request_began_;
  if (core_->options.access_log) core_->options.access_log(record_);
}

// Ending.

void Connection::stop_keeping_alive() {
  keeps_alive_ = false;
  if (answer_) answer_->stop_keeping_alive();
}

void Connection::close_if_idle() {
  if (phase_ == Phase::kIdle) return begin_close(true);
  if (phase_ == Phase::kHandshake || phase_ == Phase::kHead) close();
}

void Connection::abort() { lose(); }

/// A socket that is closed while bytes of the peer are unread resets the connection, and the peer
/// may lose what was sent: so the peer's bytes are read, and dropped, until it closes too.
void Connection::begin_close(bool is_clean) {
  enter(Phase::kClosing);
  stream_->end_sending(is_clean);
  input_.clear();
  read_next();
}

/// The client went, or takes nothing: ends at once.
void Connection::lose() {
  if (phase_ == Phase::kClosed) return;
  const std::shared_ptr<Answer> answer = answer_;
  if (answer) note_end(false);
  answer_.reset();
  close();
  if (answer) answer->lose();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  enter(Phase::kClosed);
  timer_.cancel();
  stream_->close();
  body_lease_ = {};
  if (core_->connections.erase(shared_from_this()) > 0) --core_->open_connections;
}

// Time.

std::optional<TimePoint> Connection::due() const {
  const ServerOptions& options = core_->options;
  switch (phase_) {
    case Phase::kHandshake:
    case Phase::kHead:
      return phase_began_ + options.header_time;
    case Phase::kIdle:
      return phase_began_ + options.idle_time;
    case Phase::kBody:
      return phase_began_ + options.body_time +
             std::chrono::seconds(parser_->body_bytes() / options.min_body_rate);
    case Phase::kAnswer:
      if (!is_writing_) return {};
      return last_written_ + options.write_time;
    case Phase::kClosing:
      return phase_began_ + options.linger_time;
    case Phase::kClosed:
      return {};
  }
  return {};
}

/// Cheap where the timer is set for an earlier time: it then looks again.
void Connection::arm_timer() {
  const auto at = due();
  if (!at || (timer_at_ && *timer_at_ <= *at)) return;
  timer_at_ = at;
  timer_.expires_at(*at);
  timer_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (!error) self->on_timer();
  });
}

void Connection::on_timer() {
  timer_at_.reset();
  const auto at = due();
  if (!at) return;
  if (*at > now()) return arm_timer();
  switch (phase_) {
    case Phase::kHead:
      return refuse_request(408, "headers: they took too long to come");
    case Phase::kBody:
      return refuse_request(408, "body: it took too long to come");
    case Phase::kAnswer:
      return lose();
    default:
      return close();
  }
}

}  // namespace paceline::http
