#include "batch/batch_handlers.h"

#include <spdlog/spdlog.h>

#include <charconv>
#include <utility>

#include "api/fields.h"
#include "batch/multipart.h"
#include "rest/respond.h"

namespace paceline::batch {
namespace {

using api::ApiError;
using api::Json;
using rest::respond;

constexpr std::int64_t kDay = 86400;
constexpr std::int64_t kBatchFileSeconds = 30 * kDay;

/// Of the store.
void respond(http::Exchange& exchange, const Error& error) {
  ApiError shown = api::from_error(error);
  if (shown.status >= 500) spdlog::error("batches: {}", error.message());
  if (error.code() == ErrorCode::kResourceExhausted) {
    shown.status = 413;  // to ask again does not help
    shown.code = "storage_full";
    shown.type = "invalid_request_error";
  }
  respond(exchange, shown);
}

std::string id_of(const http::Exchange& exchange) {
  const auto& values = exchange.request().path_values;
  const auto found = values.find("id");
  return found == values.end() ? "" : found->second;
}

Json file_json(const FileFacts& file) {
  Json json = {{"id", file.id},
               {"object", "file"},
               {"bytes", file.bytes},
               {"created_at", file.created_at},
               {"filename", file.filename},
               {"purpose", file.purpose},
               {"status", "processed"}};
  if (file.expires_at) json["expires_at"] = *file.expires_at;
  return json;
}

Json list_json(std::vector<Json> items, bool has_more) {
  Json json = {{"object", "list"}, {"data", Json::array()}, {"has_more", has_more}};
  json["first_id"] = items.empty() ? Json() : items.front()["id"];
  json["last_id"] = items.empty() ? Json() : items.back()["id"];
  for (Json& item : items) json["data"].push_back(std::move(item));
  return json;
}

std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t low,
                                         std::int64_t high) {
  std::int64_t number = 0;
  const auto [at, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || at != text.data() + text.size()) return std::nullopt;
  if (number < low || number > high) return std::nullopt;
  return number;
}

/// One more than asked for, by which is seen whether there are more.
api::Parsed<Page> read_page(const http::Request& request, std::int64_t limit, std::int64_t most) {
  Page page;
  page.limit = limit;
  const auto& query = request.query;
  if (const auto given = query.find("limit"); given != query.end()) {
    const auto number = whole_number(given->second, 1, most);
    if (!number) {
      return tl::unexpected(
          api::invalid_field("limit", fmt::format("expected an integer from 1 to {}", most)));
    }
    page.limit = *number;
  }
  if (const auto given = query.find("after"); given != query.end()) page.after = given->second;
  if (const auto given = query.find("order"); given != query.end()) {
    if (given->second != "asc" && given->second != "desc") {
      return tl::unexpected(api::invalid_field("order", "expected asc or desc"));
    }
    page.ascending = given->second == "asc";
  }
  ++page.limit;
  return page;
}

template <typename T>
bool cut_page(std::vector<T>& items, const Page& page) {
  const bool has_more = items.size() >= static_cast<std::size_t>(page.limit);
  if (has_more) items.pop_back();
  return has_more;
}

struct Upload {
  FileFacts facts;
  std::string_view content;
};

api::Parsed<Upload> read_upload(const http::Request& request, std::int64_t now) {
  const auto type = request.headers.find("content-type");
  const auto parts = read_form(type == request.headers.end() ? "" : type->second, request.body);
  if (!parts) return tl::unexpected(api::from_error(parts.error()));
  Upload upload;
  bool has_file = false;
  std::string purpose;
  std::int64_t seconds = kBatchFileSeconds;
  for (const FormPart& part : *parts) {
    if (part.name == "file") {
      has_file = true;
      upload.facts.filename = part.filename.empty() ? "upload.jsonl" : part.filename;
      upload.content = part.content;
    } else if (part.name == "purpose") {
      purpose = part.content;
    } else if (part.name == "expires_after[anchor]") {
      if (part.content != "created_at") {
        return tl::unexpected(api::invalid_field("expires_after.anchor", "expected created_at"));
      }
    } else if (part.name == "expires_after[seconds]") {
      const auto given = whole_number(part.content, 3600, kBatchFileSeconds);
      if (!given) {
        return tl::unexpected(api::invalid_field(
            "expires_after.seconds",
            fmt::format("expected an integer from 3600 to {}", kBatchFileSeconds)));
      }
      seconds = *given;
    }
  }
  if (purpose != "batch") {
    return tl::unexpected(purpose.empty()
                              ? api::invalid_field("purpose", "is missing")
                              : api::unsupported_field("purpose", "only batch is offered"));
  }
  if (!has_file) return tl::unexpected(api::invalid_field("file", "is missing"));
  if (upload.content.empty()) return tl::unexpected(api::invalid_field("file", "is empty"));
  upload.facts.created_at = now;
  upload.facts.expires_at = now + seconds;
  return upload;
}

}  // namespace

std::vector<http::Route> BatchHandlers::routes() {
  using Handle = void (BatchHandlers::*)(http::Exchange&);
  const auto route = [this](const char* method, const char* pattern, Handle handle) {
    const auto call = [this, handle](const std::shared_ptr<http::Exchange>& exchange) {
      (this->*handle)(*exchange);
    };
    return http::Route{method, pattern, call};
  };
  std::vector<http::Route> routes = {
      route("POST", "/v1/files", &BatchHandlers::upload),
      route("GET", "/v1/files", &BatchHandlers::list_files),
      route("GET", "/v1/files/{id}", &BatchHandlers::show_file),
      route("GET", "/v1/files/{id}/content", &BatchHandlers::give_content),
      route("DELETE", "/v1/files/{id}", &BatchHandlers::delete_file),
      route("POST", "/v1/batches", &BatchHandlers::create_batch),
      route("GET", "/v1/batches", &BatchHandlers::list_batches),
      route("GET", "/v1/batches/{id}", &BatchHandlers::show_batch),
      route("POST", "/v1/batches/{id}/cancel", &BatchHandlers::cancel_batch)};
  // Browsers send forms unasked; those of other origins are refused by their Origin.
  routes.front().policy.content_type = "multipart/form-data";
  routes.front().policy.max_body_bytes = options_.max_file_bytes;
  return routes;
}

void BatchHandlers::upload(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  const auto upload = read_upload(request, options_.now());
  if (!upload) return respond(exchange, upload.error());
  const auto stored = store_.add_file(request.tenant, upload->facts, upload->content);
  if (!stored) return respond(exchange, stored.error());
  respond(exchange, file_json(*stored));
}

void BatchHandlers::list_files(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  const auto page = read_page(request, 10000, 10000);
  if (!page) return respond(exchange, page.error());
  auto found = store_.files(request.tenant, *page);
  if (!found) return respond(exchange, found.error());
  const bool has_more = cut_page(*found, *page);
  const auto purpose = request.query.find("purpose");
  std::vector<Json> items;
  for (const FileFacts& file : *found) {
    if (purpose == request.query.end() || purpose->second == file.purpose) {
      items.push_back(file_json(file));
    }
  }
  respond(exchange, list_json(std::move(items), has_more));
}

void BatchHandlers::show_file(http::Exchange& exchange) {
  const auto file = store_.file(exchange.request().tenant, id_of(exchange));
  if (!file) return respond(exchange, file.error());
  respond(exchange, file_json(*file));
}

void BatchHandlers::give_content(http::Exchange& exchange) {
  auto content = store_.content(exchange.request().tenant, id_of(exchange));
  if (!content) return respond(exchange, content.error());
  http::Response response;
  response.content_type = "application/jsonl";
  response.body = *std::move(content);
  exchange.respond(std::move(response));
}

void BatchHandlers::delete_file(http::Exchange& exchange) {
  const std::string id = id_of(exchange);
  const auto done = store_.delete_file(exchange.request().tenant, id);
  if (!done) return respond(exchange, done.error());
  respond(exchange, Json{{"id", id}, {"object", "file"}, {"deleted", true}});
}

api::Parsed<BatchRequest> BatchHandlers::read_batch(const http::Request& request) const {
  const auto json = api::parse_body(request.body);
  if (!json) return tl::unexpected(json.error());
  std::optional<ApiError> problem;
  api::Fields fields(*json, problem);
  BatchRequest read;
  read.tenant = request.tenant;
  for (const char* name : {"input_file_id", "endpoint", "completion_window"}) fields.require(name);
  read.input_file_id = fields.text("input_file_id", 256).value_or("");
  read.endpoint = fields.text("endpoint", 256).value_or("");
  if (!is_batch_endpoint(read.endpoint)) {
    fields.refuse_unsupported(
        "endpoint",
        "only /v1/chat/completions, /v1/completions, /v1/responses and /v1/embeddings are offered");
  }
  (void)fields.one_of("completion_window", {"24h"});
  read.created_at = options_.now();
  read.expires_at = read.created_at + kDay;
  if (const Json* metadata = fields.object("metadata")) {
    if (metadata->size() > 16) fields.refuse("metadata", "expected at most 16 pairs");
    for (const auto& [key, value] : metadata->items()) {
      if (!value.is_string() || value.get_ref<const std::string&>().size() > 512) {
        fields.refuse("metadata", "expected strings of at most 512 bytes as values");
      }
    }
    read.metadata = *metadata;
  }
  if (problem) return tl::unexpected(*std::move(problem));
  return read;
}

void BatchHandlers::create_batch(http::Exchange& exchange) {
  const auto request = read_batch(exchange.request());
  if (!request) return respond(exchange, request.error());
  const auto about_file = [&exchange](const Error& error) {
    ApiError shown = api::from_error(error);
    shown.param = "input_file_id";
    respond(exchange, shown);
  };
  const auto content = store_.content(request->tenant, request->input_file_id);
  if (!content) return about_file(content.error());
  const auto lines = read_lines(*content, request->endpoint);
  if (!lines) return about_file(lines.error());
  const auto batch = store_.create_batch(*request, *lines);
  if (!batch) return respond(exchange, batch.error());
  wake_();
  respond(exchange, *batch);
}

void BatchHandlers::list_batches(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  const auto page = read_page(request, 20, 100);
  if (!page) return respond(exchange, page.error());
  auto found = store_.batches(request.tenant, *page);
  if (!found) return respond(exchange, found.error());
  const bool has_more = cut_page(*found, *page);
  respond(exchange, list_json(*std::move(found), has_more));
}

void BatchHandlers::show_batch(http::Exchange& exchange) {
  const auto batch = store_.batch(exchange.request().tenant, id_of(exchange));
  if (!batch) return respond(exchange, batch.error());
  respond(exchange, *batch);
}

void BatchHandlers::cancel_batch(http::Exchange& exchange) {
  const auto batch = store_.cancel(exchange.request().tenant, id_of(exchange), options_.now());
  if (!batch) return respond(exchange, batch.error());
  wake_();
  respond(exchange, *batch);
}

}  // namespace paceline::batch
