#include "cli/model_loader.h"

#include <utility>

#include "cli/package_files.h"
#include "serve/stage_view.h"
#include "serve/step_meter.h"
#include "system/wall_clock.h"

namespace paceline::cli {
namespace {

/// Nothing: a base model has no template, and completes text only.
Result<std::optional<serve::ChatFormat>> chat_format(const std::filesystem::path& package) {
  auto format = load_chat_format(package);
  if (!format && format.error().code() == ErrorCode::kNotFound) return std::nullopt;
  if (!format) return fail(std::move(format).error());
  return serve::ChatFormat{std::move(format->chat_template), std::move(format->source),
                           std::move(format->bos_token), std::move(format->eos_token)};
}

Result<serve::ModelFacts> facts_of(ChainSession& session) {
  serve::ModelFacts facts;
  const shard::Manifest& manifest = session.manifest();
  facts.created = system::unix_seconds();
  facts.context_tokens = session.chain().plan().context_tokens;
  facts.vocabulary_size = manifest.vocabulary_size;
  facts.sampling = manifest.model.sampling;
  facts.kv_blocks = session.chain().plan().kv_blocks;
  facts.stages = static_cast<std::uint32_t>(session.chain().plan().route.size());
  PACELINE_ASSIGN_OR_RETURN(facts.end_tokens, read_end_tokens(session.package()));
  return facts;
}

}  // namespace

Result<std::unique_ptr<serve::ServedModel>> load_model(const ChainFlags& flags,
                                                       obs::ModelMetrics& metrics) {
  const auto on_step = [&metrics](const auto& chain, const auto& step) {
    serve::count_step(metrics, step, chain.hop_row_bytes());
  };
  PACELINE_ASSIGN_OR_RETURN(auto opened, ChainSession::open(flags, on_step));
  const std::shared_ptr<ChainSession> session = std::move(opened);
  serve::ServedModel::Parts parts;
  PACELINE_ASSIGN_OR_RETURN(parts.facts, facts_of(*session));
  PACELINE_ASSIGN_OR_RETURN(parts.chat, chat_format(session->package()));
  parts.metrics = &metrics;
  parts.nodes = [session = session.get()] { return session->chain().nodes(); };
  parts.stages = [session = session.get()] {
    return serve::stage_views(session->chain().stages(), session->chain().workers());
  };
  parts.generator = &session->generator();
  if (const auto tokenizer = session->tokenizer()) parts.tokenizer = *tokenizer;
  parts.owner = session;
  return std::make_unique<serve::ServedModel>(std::move(parts));
}

}  // namespace paceline::cli
