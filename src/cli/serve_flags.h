// The flags of `paceline serve`, and what they say of models, the server and how to ask it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/chain_flags.h"
#include "http/server_options.h"
#include "serve/model_shelf.h"

namespace paceline::cli {

struct ServeFlags {
  ChainFlags chain;                 ///< of each model; its package is not used
  std::vector<std::string> models;  ///< "PACKAGE" or "NAME=PACKAGE"
  std::vector<std::string> names;   ///< of the one package
  std::vector<std::string> model_directories;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::string api_keys;
  std::string tls_certificate;
  std::string tls_key;
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> cors_origins;
  std::uint32_t drain_seconds = 30;
  std::uint64_t max_body_bytes = 32ULL << 20;
  std::string state_directory;
  std::string otlp_endpoint;
  std::string log_format = "text";
  std::string log_level = "info";

  void add_to(CLI::App& command);
  /// Without what is counted and logged. Reads the file of keys.
  Result<http::ServerOptions> server_options() const;
  /// The models of the command line, each with its names. kInvalidArgument names the one at fault.
  Result<std::vector<serve::ModelSource>> model_sources() const;

 private:
  void add_models_to(CLI::App& command);
  void add_access_to(CLI::App& command);
};

/// A command that asks the model and works as it is, in one line. `url`: where the server listens.
std::string how_to_ask(const ServeFlags& flags, const std::string& url, const std::string& model,
                       bool can_chat);

/// The URL by which clients reach it, without "/v1": with TLS by the first --allowed-host, as
/// certificates are of names.
std::string base_url(const ServeFlags& flags, const std::string& url);

}  // namespace paceline::cli
