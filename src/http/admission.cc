#include "http/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "http/ascii.h"
#include "http/response_text.h"
#include "http/target.h"
#include "system/random_ids.h"

namespace paceline::http {
namespace {

using Answer = std::optional<Response>;

std::string_view header(const RequestHead& head, const char* name) {
  const auto found = head.headers.find(name);
  return found == head.headers.end() ? std::string_view() : std::string_view(found->second);
}

Response refusal_of(const Error& error) {
  const bool is_denied = error.code() == ErrorCode::kPermissionDenied;
  return error_response(is_denied ? 403 : 400, error.message());
}

Answer check_target(const RequestHead& head, Target& target) {
  auto parsed = parse_target(head.target);
  if (!parsed) return refusal_of(parsed.error());
  if (parsed->path == "*" && head.method != "OPTIONS") {
    return error_response(400, "request line: * is for OPTIONS alone");
  }
  target = std::move(*parsed);
  return {};
}

Answer check_source(const RequestHead& head, const Target& target, const AdmissionRules& rules,
                    Admission& admission) {
  const bool has_host = head.headers.contains("host");
  if (!has_host && head.is_http11) return error_response(400, "Host: expected in HTTP/1.1");
  // An absolute target goes before Host, but both must do: which one a proxy looked at is not
  // known.
  Status status;
  if (has_host) status = rules.hosts.check_host(header(head, "host"));
  if (status && !target.authority.empty()) status = rules.hosts.check_host(target.authority);
  if (!status) return refusal_of(status.error());
  if (!head.headers.contains("origin")) return {};
  const std::string_view origin = header(head, "origin");
  if (const Status status = rules.hosts.check_origin(origin, header(head, "host")); !status) {
    return refusal_of(status.error());
  }
  const std::string readable_by = rules.hosts.cors_origin(origin);
  if (readable_by.empty()) return {};
  admission.headers["access-control-allow-origin"] = readable_by;
  admission.headers["access-control-expose-headers"] = "x-request-id, retry-after";
  admission.headers["vary"] = "Origin";
  return {};
}

std::string joined(const std::vector<std::string>& methods) {
  std::string text;
  for (const std::string& method : methods) text += method + ", ";
  return text + "OPTIONS";
}

/// The answer to OPTIONS where no route has it: needs no key, as browsers send none with it.
Response describe(const RequestHead& head, const std::string& methods, Admission& admission) {
  Response response;
  response.status = 204;
  response.headers["allow"] = methods;
  if (admission.headers.contains("access-control-allow-origin")) {
    admission.headers["access-control-allow-methods"] = methods;
    const std::string_view wanted = header(head, "access-control-request-headers");
    if (!wanted.empty()) admission.headers["access-control-allow-headers"] = wanted;
    admission.headers["access-control-max-age"] = "600";
  }
  return response;
}

Answer find_route(const RequestHead& head, const Target& target, const AdmissionRules& rules,
                  Admission& admission) {
  if (target.path == "*") return describe(head, "GET, HEAD, POST, DELETE, OPTIONS", admission);
  Router::Found found = rules.router.find(head.method, target.segments);
  if (found.route != nullptr) {
    admission.route = found.route;
    admission.request.path_values = std::move(found.values);
    return {};
  }
  if (found.methods.empty()) {
    return error_response(404, fmt::format("{}: no such path", target.path), "unknown_path");
  }
  const std::string methods = joined(found.methods);
  if (head.method == "OPTIONS") return describe(head, methods, admission);
  Response response = error_response(
      405, fmt::format("{}: {} is not served here, but {}", target.path, head.method, methods),
      "method_not_allowed");
  response.headers["allow"] = methods;
  return response;
}

Answer check_key(const RequestHead& head, const AdmissionRules& rules, Admission& admission) {
  if (rules.keys == nullptr || !admission.route->policy.needs_key) return {};
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view value = header(head, "authorization");
  const bool has_key = equal_ignoring_case(value.substr(0, kScheme.size()), kScheme);
  if (has_key) {
    auto tenant = rules.keys->tenant(trimmed(value.substr(kScheme.size())));
    if (tenant) {
      admission.request.tenant = std::move(*tenant);
      return {};
    }
  }
  Response response =
      error_response(401,
                     has_key ? "Authorization: unknown API key"
                             : "Authorization: expected an API key, as 'Authorization: Bearer KEY'",
                     "invalid_api_key");
  response.headers["www-authenticate"] =
      has_key ? "Bearer error=\"invalid_token\"" : "Bearer realm=\"paceline\"";
  return response;
}

/// Browsers send forms and plain text to any site without asking it first, JSON not: so a body must
/// say what it is.
Answer check_body(const RequestHead& head, const Admission& admission) {
  if (!head.has_body) return {};
  const std::string& expected = admission.route->policy.content_type;
  const std::string_view value = header(head, "content-type");
  const std::string_view type = trimmed(value.substr(0, std::min(value.find(';'), value.size())));
  if (!expected.empty() && !equal_ignoring_case(type, expected)) {
    return error_response(415, fmt::format("Content-Type: expected {}", expected),
                          "unsupported_media_type");
  }
  const std::string_view coding = header(head, "content-encoding");
  if (!coding.empty() && !equal_ignoring_case(coding, "identity")) {
    return error_response(415, "Content-Encoding: compressed bodies are not understood");
  }
  if (head.content_length && *head.content_length > admission.max_body_bytes) {
    return error_response(413, fmt::format("body: {} bytes, at most {} are taken",
                                           *head.content_length, admission.max_body_bytes));
  }
  return {};
}

Answer check_expectation(const RequestHead& head, Admission& admission) {
  const std::string_view value = header(head, "expect");
  if (value.empty() || !head.is_http11) return {};
  if (!equal_ignoring_case(value, "100-continue")) {
    return error_response(417, "Expect: only 100-continue is understood");
  }
  admission.expects_continue = head.has_body;
  return {};
}

Answer decide(const RequestHead& head, const AdmissionRules& rules, Admission& admission) {
  Target target;
  if (auto answer = check_target(head, target)) return answer;
  admission.request.path = target.path;
  admission.request.query = target.query;
  if (auto answer = check_source(head, target, rules, admission)) return answer;
  if (auto answer = find_route(head, target, rules, admission)) return answer;
  const std::size_t limit = admission.route->policy.max_body_bytes;
  admission.max_body_bytes = limit == 0 ? rules.max_body_bytes : limit;
  if (auto answer = check_key(head, rules, admission)) return answer;
  if (auto answer = check_body(head, admission)) return answer;
  return check_expectation(head, admission);
}

}  // namespace

std::string request_id_or_new(std::string_view text) {
  constexpr std::size_t kMaxBytes = 128;
  if (!text.empty() && text.size() <= kMaxBytes &&
      std::all_of(text.begin(), text.end(), is_printable)) {
    return std::string(text);
  }
  return system::random_id("req_");
}

Admission admit(const RequestHead& head, const AdmissionRules& rules) {
  Admission admission;
  admission.request.id = request_id_or_new(header(head, "x-request-id"));
  admission.request.method = head.method;
  admission.answer = decide(head, rules, admission);
  if (admission.answer) admission.route = nullptr;
  admission.request.headers = head.headers;
  // Handlers have the key's name; the key itself is in nobody's way to a log.
  admission.request.headers.erase("authorization");
  return admission;
}

}  // namespace paceline::http
