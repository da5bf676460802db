// What can be set on a server, and what it tells.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "http/api_keys.h"

namespace paceline::http {

/// One line of an access log: nothing of bodies, queries or keys.
struct AccessRecord {
  std::string request_id;
  std::string method;
  std::string path;   ///< decoded; may hold any bytes but control characters
  std::string route;  ///< its pattern, e.g. "/v1/models/{name}"; empty where none fits
  std::string remote;
  std::string tenant;
  int status = 0;  ///< 0: there was no answer
  Duration duration{};
  std::uint64_t sent_bytes = 0;
  bool is_stream = false;
  bool is_complete = false;  ///< else the client went, or the stream was aborted
};

struct ServerOptions {
  std::string address = "127.0.0.1";  ///< an IP address, or "localhost"
  std::uint16_t port = 0;             ///< 0: any
  std::size_t handler_threads = 2;
  std::size_t max_queued_requests = 1024;  ///< that wait for a handler thread
  std::size_t max_connections = 4096;

  std::size_t max_body_bytes = std::size_t{32} << 20;     ///< where the route says nothing else
  std::size_t max_bodies_bytes = std::size_t{512} << 20;  ///< of all requests together
  std::size_t max_header_bytes = std::size_t{32} << 10;
  /// Of a stream: who reads more slowly is let go.
  std::size_t max_unsent_bytes = std::size_t{1} << 20;

  Duration header_time = std::chrono::seconds(10);  ///< from a request's first byte; TLS handshake
  Duration idle_time = std::chrono::seconds(75);    ///< between requests
  Duration body_time = std::chrono::seconds(30);    ///< longer at the rate of min_body_rate
  std::size_t min_body_rate = std::size_t{16} << 10;  ///< bytes per second
  Duration write_time = std::chrono::seconds(30);     ///< without a byte taken
  Duration linger_time = std::chrono::seconds(3);  ///< for the peer to read the end and close too

  std::filesystem::path tls_certificate{};  ///< PEM chain; empty: no TLS
  std::filesystem::path tls_key{};
  std::vector<std::string> allowed_hosts{};  ///< host_rules.h
  std::vector<std::string> cors_origins{};
  std::shared_ptr<ApiKeys> api_keys{};  ///< null: no keys are asked for

  /// On the network thread: must not block.
  std::function<void(const AccessRecord&)> access_log{};
};

struct ServerCounts {
  std::size_t connections = 0;
  std::size_t requests = 0;  ///< being read or answered
  std::size_t streams = 0;
};

}  // namespace paceline::http
