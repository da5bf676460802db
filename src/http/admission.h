// What is decided of a request by its head alone, before a byte of its body is read. Pure but for
// the file of keys.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "http/api_keys.h"
#include "http/exchange.h"
#include "http/host_rules.h"
#include "http/request_parser.h"
#include "http/router.h"

namespace paceline::http {

struct AdmissionRules {
  const Router& router;
  const HostRules& hosts;
  ApiKeys* keys = nullptr;  ///< null: none are asked for
  std::size_t max_body_bytes = 0;
};

struct Admission {
  Request request;                 ///< all but body and remote
  const Route* route = nullptr;    ///< null where there is an answer
  std::optional<Response> answer;  ///< a refusal, or the answer to OPTIONS
  Headers headers;                 ///< for any answer
  std::size_t max_body_bytes = 0;
  bool expects_continue = false;
};

/// Checks, in this order: target, Host, Origin, route, key, media type, length, Expect.
Admission admit(const RequestHead& head, const AdmissionRules& rules);

/// `text` where it is a sane id (at most 128 printable ASCII characters), else a new one.
std::string request_id_or_new(std::string_view text);

}  // namespace paceline::http
