// One client's connection. Internal: handlers see exchange.h.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "http/admission.h"
#include "http/answer.h"
#include "http/byte_stream.h"
#include "http/request_parser.h"
#include "http/server_core.h"

namespace paceline::http {

/// Lifecycle: start() -> handshake -> (idle -> head -> body -> answer)* -> closing -> closed. One
/// request at a time: what a client sends ahead waits in a bounded buffer. It is read all the time,
/// so that a client that goes is noticed while its answer is made. Network thread only.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerCore> core, std::shared_ptr<ByteStream> stream,
             std::string remote);

  void start();
  /// Answers 503 to the first request, and closes.
  void refuse() { is_refused_ = true; }
  /// No request after the one that is being read or answered.
  void stop_keeping_alive();
  /// Closes where no request is being read or answered.
  void close_if_idle();
  void abort();

 private:
  enum class Phase { kHandshake, kIdle, kHead, kBody, kAnswer, kClosing, kClosed };
  using ErrorCode = boost::system::error_code;

  // Reading.
  void read_next();
  void on_read(const ErrorCode& error, std::size_t count);
  void on_read_end();
  void advance();
  bool parse_some();
  bool on_parsed();
  void on_head();
  bool keep_body_within_budget();
  void dispatch();
  void send_continue();

  // Answering.
  void refuse_request(int status, std::string_view message);
  void answer_at_once(Response response, bool keeps_alive);
  void begin_answer(bool keeps_alive);
  void on_woken();
  void take_output();
  void write_rest();
  void on_written(const ErrorCode& error, std::size_t count);
  void finish_answer();
  void note_end(bool is_complete);

  // Ending.
  void begin_close(bool is_clean);
  void lose();
  void close();

  // Time.
  std::optional<TimePoint> due() const;
  void arm_timer();
  void on_timer();

  void enter(Phase phase);
  bool is_open() const { return phase_ != Phase::kClosing && phase_ != Phase::kClosed; }

  const std::shared_ptr<ServerCore> core_;
  const std::shared_ptr<ByteStream> stream_;
  const std::string remote_;
  boost::asio::steady_timer timer_;
  std::optional<TimePoint> timer_at_;
  Phase phase_ = Phase::kHandshake;
  TimePoint phase_began_;
  bool is_refused_ = false;
  bool keeps_alive_ = true;  ///< false: the server is about to stop

  std::vector<char> arriving_;  ///< of the read under way
  boost::beast::flat_buffer input_;
  bool is_reading_ = false;
  std::optional<RequestParser> parser_;
  Admission admission_;
  ByteLease body_lease_;

  std::string output_;  ///< being written
  std::size_t written_bytes_ = 0;
  std::size_t answer_bytes_ = 0;  ///< of output_: all of it, or none
  bool is_writing_ = false;
  bool is_last_output_ = false;
  bool is_cut_ = false;
  TimePoint last_written_;
  std::shared_ptr<Answer> answer_;
  AccessRecord record_;
  TimePoint request_began_;
  bool is_counted_stream_ = false;
};

}  // namespace paceline::http
