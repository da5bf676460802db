// One HTTP request and its answer, as handlers see them. Not a transport: server.h has that.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace paceline::http {

/// Names in lower case. Of a name that came twice, the values joined by ", ".
using Headers = std::map<std::string, std::string>;

struct Request {
  std::string id;      ///< the client's X-Request-Id where it is a sane one, else ours
  std::string method;  ///< "GET", "POST", ...
  std::string path;    ///< decoded, without the query
  std::map<std::string, std::string> path_values;  ///< of "{name}" in the route's path
  std::map<std::string, std::string> query;
  Headers headers;
  std::string body;    ///< whole, within the route's limit
  std::string remote;  ///< "127.0.0.1:40000"
  std::string tenant;  ///< name of the API key; empty where no keys are set
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
};

/// Either respond(), or begin_stream(), any number of write(), then end() or abort(); what comes
/// after the end, or after the client has gone, is dropped. Held by shared_ptr, since the server
/// and whoever answers both need it; one that is let go unanswered answers 500. Thread-safe, and no
/// call blocks.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;

  virtual void respond(Response response) = 0;

  /// Chunked, whatever the length: a stream that is cut must not look like a short answer.
  virtual void begin_stream(Response head) = 0;
  /// False where the client has gone, or reads so slowly that it was let go: stop producing.
  virtual bool write(std::string_view bytes) = 0;
  virtual void end() = 0;
  /// Closes the connection without the end of the stream.
  virtual void abort() = 0;

  /// Called once, from any thread, when the client goes before the answer's end (at once where it
  /// has gone already). Replaces what was set before.
  virtual void on_gone(std::function<void()> call) = 0;
};

/// Runs on one of the server's handler threads; may take milliseconds, but must not wait for
/// tokens: keep the exchange and return.
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace paceline::http
