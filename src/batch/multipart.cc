#include "batch/multipart.h"

#include <algorithm>

#include "http/ascii.h"

namespace paceline::batch {
namespace {

constexpr std::size_t kMaxParts = 32;
constexpr std::size_t kMaxHead = 8192;
constexpr std::size_t kMaxBoundary = 70;  // RFC 2046
constexpr std::size_t kMaxName = 512;

/// Of a header's value: what NAME="..." or NAME=... says; empty where it is not there.
std::string parameter(std::string_view value, std::string_view name) {
  std::size_t at = value.find(';');
  while (at < value.size()) {
    std::string_view rest = http::trimmed(value.substr(at + 1));
    const std::size_t equals = rest.find('=');
    if (equals == std::string_view::npos) return {};
    const bool is_it = http::lower_case(http::trimmed(rest.substr(0, equals))) == name;
    rest = http::trimmed(rest.substr(equals + 1));
    std::string text;
    std::size_t end = 0;
    if (rest.starts_with('"')) {
      for (end = 1; end < rest.size() && rest[end] != '"'; ++end) {
        if (rest[end] == '\\' && end + 1 < rest.size()) ++end;
        text += rest[end];
      }
    } else {
      end = std::min(rest.find(';'), rest.size());
      text = http::trimmed(rest.substr(0, end));
    }
    if (is_it) return text;
    const std::size_t next = rest.find(';', end);
    if (next == std::string_view::npos) return {};
    at = static_cast<std::size_t>(rest.data() + next - value.data());
  }
  return {};
}

/// The value of Content-Disposition among a part's headers.
Result<std::string_view> disposition(std::string_view head) {
  while (!head.empty()) {
    const std::size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) break;
    if (http::lower_case(line.substr(0, colon)) == "content-disposition")
      return line.substr(colon + 1);
  }
  return fail(ErrorCode::kInvalidArgument, "the form: a part has no Content-Disposition");
}

Result<FormPart> read_part(std::string_view text) {
  const std::size_t end = text.substr(0, kMaxHead).find("\r\n\r\n");
  if (end == std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument, "the form: a part's headers have no end");
  }
  PACELINE_ASSIGN_OR_RETURN(const auto value, disposition(text.substr(0, end)));
  FormPart part;
  part.name = parameter(value, "name");
  part.filename = parameter(value, "filename");
  part.content = text.substr(end + 4);
  if (part.name.empty() || part.name.size() > kMaxName || part.filename.size() > kMaxName) {
    return fail(ErrorCode::kInvalidArgument, "the form: expected parts with names of 1 to {} bytes",
                kMaxName);
  }
  return part;
}

}  // namespace

Result<std::vector<FormPart>> read_form(std::string_view content_type, std::string_view body) {
  const std::string boundary = parameter(content_type, "boundary");
  if (boundary.empty() || boundary.size() > kMaxBoundary) {
    return fail(ErrorCode::kInvalidArgument,
                "Content-Type: expected multipart/form-data with a boundary of 1 to {} bytes",
                kMaxBoundary);
  }
  const std::string first = "--" + boundary;
  const std::string delimiter = "\r\n" + first;
  if (!body.starts_with(first)) {
    return fail(ErrorCode::kInvalidArgument, "the form: expected the boundary at its begin");
  }
  body.remove_prefix(first.size());
  std::vector<FormPart> parts;
  // Behind a boundary: the next part on a line of its own, or the end.
  while (body.starts_with("\r\n")) {
    const std::size_t end = body.find(delimiter, 2);
    if (end == std::string_view::npos) {
      return fail(ErrorCode::kInvalidArgument, "the form: its last part has no end");
    }
    if (parts.size() == kMaxParts) {
      return fail(ErrorCode::kInvalidArgument, "the form: expected at most {} parts", kMaxParts);
    }
    PACELINE_ASSIGN_OR_RETURN(auto part, read_part(body.substr(2, end - 2)));
    parts.push_back(std::move(part));
    body.remove_prefix(end + delimiter.size());
  }
  if (!body.starts_with("--")) {
    return fail(ErrorCode::kInvalidArgument, "the form: expected its end behind the last part");
  }
  return parts;
}

}  // namespace paceline::batch
