#include "serve/handlers.h"

#include <fmt/format.h>

#include <utility>

#include "base/version.h"
#include "serve/answer_form.h"
#include "serve/chat_reply.h"
#include "serve/completion_reply.h"
#include "serve/embedding_reply.h"
#include "serve/openapi.h"
#include "serve/prompts.h"
#include "serve/response_reply.h"
#include "system/random_ids.h"
#include "system/wall_clock.h"

namespace paceline::serve {
namespace {

using api::Json;

/// Who shares KV blocks with whom: the tenants are kept apart.
std::string salt_of(const http::Request& request, const api::GenerationFields& asked) {
  if (request.tenant.empty()) return asked.cache_salt;
  return request.tenant + '\n' + asked.cache_salt;
}

coordinator::GenerationRequest generation_request(const http::Request& request,
                                                  const ServedModel& model,
                                                  const api::GenerationFields& asked) {
  coordinator::GenerationRequest generation;
  generation.sampling = asked.sampling_spec(model.facts().sampling, system::random_seed());
  generation.choices = asked.choices;
  generation.stop = asked.stop;
  generation.ignore_eos = asked.ignore_eos;
  generation.shows_special_tokens = !asked.skip_special_tokens;
  generation.priority = asked.priority;
  generation.cache_salt = salt_of(request, asked);
  return generation;
}

/// What the model's text may hold beside plain content.
api::AnswerParserOptions parsing_of(const api::ChatRequest& request, const ServedModel& model) {
  api::AnswerParserOptions parsing;
  parsing.separates_reasoning = request.separates_reasoning;
  parsing.parallel_tool_calls = request.parallel_tool_calls;
  parsing.call_id = "call_" + system::random_hex(16);
  if (!request.parses_tool_calls) return parsing;
  parsing.tools = api::tool_format_of(model.chat()->source);
  // Its template refuses ids that are not nine letters and digits; two and two are counted.
  if (parsing.tools == api::ToolFormat::kMistral) parsing.call_id = system::random_hex(5);
  for (const Json& tool : request.prompt.tools) {
    parsing.tool_names.insert(tool["function"]["name"].get<std::string>());
  }
  return parsing;
}

std::optional<api::ApiError> check_model(const ServedModel& model,
                                         const api::GenerationFields& asked) {
  if (model.tokenizer() == nullptr && !asked.stop.empty()) {
    return api::unsupported_field("stop", "the model has no tokenizer; use stop_token_ids");
  }
  return api::check_tokens(asked, model.facts().vocabulary_size);
}

}  // namespace

Handlers::Handlers(ModelRegistry& registry, const Clock& clock, const HandlerOptions& options)
    : registry_(registry), clock_(clock), options_(options), pings_(clock, options.ping_interval) {}

std::vector<http::Route> Handlers::routes() {
  http::RoutePolicy open;
  open.needs_key = false;
  const auto by_reference = [this](void (Handlers::*handle)(http::Exchange&)) {
    return [this, handle](const Exchange& exchange) { (this->*handle)(*exchange); };
  };
  return {
      {"GET", "/v1/models", by_reference(&Handlers::list_models)},
      {"GET", "/v1/models/{name...}", by_reference(&Handlers::show_model)},
      {"POST", "/v1/chat/completions", [this](const Exchange& exchange) { chat(exchange); }},
      {"POST", "/v1/completions", [this](const Exchange& exchange) { complete(exchange); }},
      {"POST", "/v1/responses", [this](const Exchange& exchange) { create_response(exchange); }},
      {"POST", "/v1/embeddings", [this](const Exchange& exchange) { embed(exchange); }},
      {"POST", "/tokenize", by_reference(&Handlers::tokenize)},
      {"POST", "/detokenize", by_reference(&Handlers::detokenize)},
      {"GET", "/health", by_reference(&Handlers::health), open},
      {"GET", "/version", by_reference(&Handlers::version), open},
      {"GET", "/openapi.json", by_reference(&Handlers::describe), open}};
}

void Handlers::list_models(http::Exchange& exchange) {
  respond(exchange, api::model_list(registry_.cards()));
}

void Handlers::show_model(http::Exchange& exchange) {
  const auto& values = exchange.request().path_values;
  const auto name = values.find("name");
  for (const api::ModelCard& card : registry_.cards()) {
    if (name != values.end() && card.id == name->second) {
      return respond(exchange, api::model_object(card));
    }
  }
  respond(exchange, api::unknown_model(name == values.end() ? "" : name->second));
}

void Handlers::health(http::Exchange& exchange) {
  if (registry_.is_healthy()) return respond(exchange, Json{{"status", "ok"}});
  http::Response response;
  response.status = 503;
  response.headers["Retry-After"] = "5";
  response.body = R"({"status":"not ready"})";
  exchange.respond(std::move(response));
}

void Handlers::version(http::Exchange& exchange) { respond(exchange, Json{{"version", kVersion}}); }

void Handlers::describe(http::Exchange& exchange) {
  http::Response response;
  response.body = openapi_json();
  exchange.respond(std::move(response));
}

void Handlers::show_metrics(http::Exchange& exchange) {
  std::map<std::string, bool> nodes;
  for (const auto& model : registry_.models()) {
    model->look();
    nodes.merge(model->nodes());
  }
  options_.metrics->set_nodes(nodes);
  http::Response response;
  response.content_type = obs::kMetricsContentType;
  response.body = options_.metrics->text();
  exchange.respond(std::move(response));
}

void Handlers::tokenize(http::Exchange& exchange) {
  const auto request = api::parse_tokenize_request(exchange.request().body);
  if (!request) return respond(exchange, request.error());
  const auto found = registry_.find(request->model);
  if (!found) return respond(exchange, found.error());
  const ServedModel& model = *found->model;
  api::TokenIds ids;
  if (request->chat) {
    const auto tokens = chat_tokens(model, *request->chat);
    if (!tokens) return respond(exchange, tokens.error());
    ids = tokens->ids;
  } else if (!request->text.empty() || request->add_special_tokens) {
    const auto tokens = prompt_tokens(model, request->text, request->add_special_tokens);
    if (!tokens && !request->text.empty()) return respond(exchange, tokens.error());
    ids = tokens.value_or(api::TokenIds());
  }
  Json body = {
      {"count", ids.size()}, {"max_model_len", model.facts().context_tokens}, {"tokens", ids}};
  if (request->return_token_strings) {
    body["token_strs"] = Json::array();
    for (const auto id : ids) {
      body["token_strs"].push_back(api::token_text(model.tokenizer()->token_bytes(id)));
    }
  }
  respond(exchange, body);
}

void Handlers::detokenize(http::Exchange& exchange) {
  const auto request = api::parse_detokenize_request(exchange.request().body);
  if (!request) return respond(exchange, request.error());
  const auto found = registry_.find(request->model);
  if (!found) return respond(exchange, found.error());
  const ServedModel& model = *found->model;
  if (model.tokenizer() == nullptr) {
    return respond(exchange, api::unsupported_field("tokens", "the model has no tokenizer"));
  }
  if (!request->tokens.empty()) {
    const auto known = prompt_tokens(model, request->tokens, false);
    if (!known) return respond(exchange, api::invalid_field("tokens", known.error().message));
  }
  const auto text = model.tokenizer()->decode(request->tokens, false);
  if (!text) return respond(exchange, api::from_error(text.error()));
  respond(exchange, Json{{"prompt", *text}});
}

Reply::Parts Handlers::parts_for(const Exchange& exchange, const ModelRegistry::Found& found,
                                 const api::GenerationFields& asked, const char* id_prefix) const {
  Reply::Parts parts;
  parts.exchange = exchange;
  parts.model = found.model;
  parts.clock = &clock_;
  parts.spans = options_.spans;
  parts.head = {system::random_id(id_prefix), system::unix_seconds(), found.name};
  parts.asked = asked;
  parts.log = options_.log;
  return parts;
}

void Handlers::chat(const Exchange& exchange) {
  const auto request = api::parse_chat_request(exchange->request().body);
  if (!request) return respond(*exchange, request.error());
  run_chat(exchange, *request, "chatcmpl-",
           [](Reply::Parts parts, const api::AnswerParserOptions& parsing) {
             return std::make_shared<ChatReply>(std::move(parts), parsing);
           });
}

void Handlers::create_response(const Exchange& exchange) {
  const auto request = api::parse_response_request(exchange->request().body);
  if (!request) return respond(*exchange, request.error());
  run_chat(exchange, request->chat, "resp_",
           [&request](Reply::Parts parts, const api::AnswerParserOptions& parsing) {
             return std::make_shared<ResponseReply>(std::move(parts), parsing, request->shown);
           });
}

void Handlers::embed(const Exchange& exchange) {
  const auto request = api::parse_embedding_request(exchange->request().body);
  if (!request) return respond(*exchange, request.error());
  const auto found = registry_.find(request->model);
  if (!found) return respond(*exchange, found.error());
  run_embedding(exchange, *request, *found);
}

void Handlers::run_embedding(const Exchange& exchange, const api::EmbeddingRequest& request,
                             const ModelRegistry::Found& found) {
  ServedModel& model = *found.model;
  if (const auto able = model.check_means(); !able) {
    return respond(*exchange, api::no_embeddings(found.name, able.error().message()));
  }
  if (const auto problem = api::check_size(request, model.mean_width())) {
    return respond(*exchange, *problem);
  }
  const std::size_t context = model.facts().context_tokens;
  std::vector<api::TokenIds> inputs;
  for (const api::PromptText& input : request.inputs) {
    auto tokens = prompt_tokens(model, input, request.add_special_tokens, "input");
    if (!tokens) return respond(*exchange, tokens.error());
    if (tokens->size() >= context) {
      return respond(*exchange, api::input_exceeds_context(inputs.size(), tokens->size(), context));
    }
    inputs.push_back(*std::move(tokens));
  }
  api::GenerationFields asked;
  asked.cache_salt = request.cache_salt;
  coordinator::GenerationRequest like;
  like.want_mean = true;
  like.priority = request.priority;
  like.cache_salt = salt_of(exchange->request(), asked);
  auto parts = parts_for(exchange, found, asked, "embd-");
  parts.prompts = inputs.size();
  const auto reply =
      std::make_shared<EmbeddingReply>(std::move(parts), std::move(inputs), request.is_base64);
  const auto begun = reply->begin(std::move(like));
  if (!begun) return reply->fail(api::from_error(begun.error()));
  reply->start();
}

void Handlers::run_chat(const Exchange& exchange, const api::ChatRequest& request,
                        const char* id_prefix, const MakeReply& make_reply) {
  const auto found = registry_.find(request.generation.model);
  if (!found) return respond(*exchange, found.error());
  ServedModel& model = *found->model;
  api::GenerationFields asked = request.generation;
  if (const auto problem = check_model(model, asked)) return respond(*exchange, *problem);
  const auto tokens = chat_tokens(model, request.prompt);
  if (!tokens) return respond(*exchange, tokens.error());
  api::AnswerParserOptions parsing = parsing_of(request, model);
  parsing.begins_in_reasoning = tokens->opens_reasoning;
  auto problem = settle_chat_form(model, request, parsing.tools, tokens->opens_reasoning, asked);
  if (problem) return respond(*exchange, *problem);
  if (api::has_special_marks(parsing.tools)) asked.skip_special_tokens = false;
  auto generation = generation_request(exchange->request(), model, asked);
  generation.prompt = tokens->ids;
  problem = fit_context(model, tokens->ids.size(), asked, generation.max_tokens);
  if (problem) return respond(*exchange, *problem);
  const auto reply = make_reply(parts_for(exchange, *found, asked, id_prefix), parsing);
  if (asked.stream) pings_.add(reply);
  const auto submitted = reply->submit(0, std::move(generation));
  if (!submitted) return reply->fail(api::from_error(submitted.error()));
  reply->start();
}

void Handlers::complete(const Exchange& exchange) {
  const auto request = api::parse_completion_request(exchange->request().body);
  if (!request) return respond(*exchange, request.error());
  const auto found = registry_.find(request->generation.model);
  if (!found) return respond(*exchange, found.error());
  run_completion(exchange, *request, *found);
}

void Handlers::run_completion(const Exchange& exchange, const api::CompletionRequest& request,
                              const ModelRegistry::Found& found) {
  ServedModel& model = *found.model;
  const api::GenerationFields& asked = request.generation;
  if (const auto problem = check_model(model, asked)) return respond(*exchange, *problem);
  if (const auto problem = check_form(model, asked)) return respond(*exchange, *problem);
  auto generation = generation_request(exchange->request(), model, asked);
  generation.want_prompt_logprobs = request.echo && asked.logprobs.has_value();
  std::vector<CompletionReply::Prompt> prompts;
  // All are looked at before the first is begun.
  for (const api::PromptText& prompt : request.prompts) {
    auto tokens = prompt_tokens(model, prompt, request.add_special_tokens);
    if (!tokens) return respond(*exchange, tokens.error());
    if (const auto problem = fit_context(model, tokens->size(), asked, generation.max_tokens)) {
      return respond(*exchange, *problem);
    }
    prompts.push_back({*std::move(tokens), request.echo ? prompt_text(model, prompt) : ""});
  }
  // None asked for: one is made and not shown, as the prompt's scores come with an answer.
  generation.max_tokens = std::max(1U, *asked.max_tokens);
  auto parts = parts_for(exchange, found, asked, "cmpl-");
  parts.prompts = prompts.size();
  const auto reply = std::make_shared<CompletionReply>(std::move(parts), prompts, request.echo);
  if (asked.stream) pings_.add(reply);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto own = generation;
    own.prompt = std::move(prompts[i].tokens);
    const auto submitted = reply->submit(i, std::move(own));
    if (!submitted) return reply->fail(api::from_error(submitted.error()));
  }
  reply->start();
}

}  // namespace paceline::serve
