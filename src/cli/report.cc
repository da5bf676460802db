#include "cli/report.h"

#include <fmt/format.h>

#include <utility>

namespace paceline::cli {
namespace {

std::uint64_t kv_tokens(const coordinator::ChainPlan& plan) {
  return std::uint64_t{plan.kv_blocks} * plan.logical_block_tokens;
}

/// For each token a list of the likeliest.
nlohmann::json to_json(const std::vector<std::vector<wire::TokenLogprob>>& lists) {
  nlohmann::json json = nlohmann::json::array();
  for (const auto& list : lists) {
    nlohmann::json& row = json.emplace_back(nlohmann::json::array());
    for (const wire::TokenLogprob& entry : list) {
      row.push_back({{"token", entry.token}, {"logprob", entry.logprob}});
    }
  }
  return json;
}

nlohmann::json to_json(const sched::SchedulerStats& work) {
  return {{"prompt_tokens", work.prompt_tokens},     {"reused_tokens", work.reused_tokens},
          {"preemptions", work.preemptions},         {"drafted_tokens", work.drafted_tokens},
          {"accepted_drafts", work.accepted_drafts}, {"planned_rows", work.planned_rows},
          {"wasted_rows", work.wasted_rows}};
}

nlohmann::json to_json(const draft::ModelDrafter& drafter) {
  const draft::DrafterStats stats = drafter.stats();
  nlohmann::json json = {{"guesses", stats.guesses},
                         {"batches", stats.batches},
                         {"guess_ms", drafter.guess_us() / 1000.0}};
  if (stats.failure) json["failure"] = stats.failure->message();
  return json;
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1ULL << 30) return fmt::format("{:.2f} GiB", value / (1ULL << 30));
  if (bytes >= 1ULL << 20) return fmt::format("{:.1f} MiB", value / (1ULL << 20));
  if (bytes >= 1ULL << 10) return fmt::format("{:.1f} KiB", value / (1ULL << 10));
  return fmt::format("{} B", bytes);
}

nlohmann::json to_json(const coordinator::Generation& generation) {
  nlohmann::json json = {
      {"text", generation.text},
      {"tokens", generation.tokens},
      {"logprobs", generation.logprobs},
      {"finish_reason", coordinator::to_string(generation.finish_reason)},
      {"prompt_tokens", generation.prompt_tokens},
      {"reused_tokens", generation.reused_tokens},
      {"ttft_ms", to_milliseconds(generation.time_to_first_token)},
      {"decode_ms", to_milliseconds(generation.decode_time)},
      {"tokens_per_second", generation.decode_tokens_per_second()},
  };
  if (!generation.top_logprobs.empty()) json["top_logprobs"] = to_json(generation.top_logprobs);
  if (!generation.prompt_logprobs.empty()) {
    json["prompt_logprobs"] = generation.prompt_logprobs;
    if (!generation.prompt_top_logprobs.empty()) {
      json["prompt_top_logprobs"] = to_json(generation.prompt_top_logprobs);
    }
  }
  if (!generation.logits_digests.empty()) {
    auto& digests = json["logits_digests"] = nlohmann::json::array();
    for (const std::uint64_t digest : generation.logits_digests) {
      digests.push_back(fmt::format("{:016x}", digest));
    }
  }
  return json;
}

Result<nlohmann::json> chain_json(ChainSession& session) {
  PACELINE_ASSIGN_OR_RETURN(const auto pongs, session.chain().status());
  nlohmann::json stages = nlohmann::json::array();
  for (const coordinator::StageReport& stage : session.chain().stages()) {
    const wire::Pong& pong = pongs.at(stage.entry.address);
    nlohmann::json row = {
        {"worker", stage.entry.address},
        {"name", stage.worker_name},
        {"layers", {stage.entry.layers.begin, stage.entry.layers.end}},
        {"weight_bytes", stage.ready.weight_bytes},
        {"kv_bytes", stage.ready.kv_bytes},
        {"load_ms", static_cast<double>(stage.ready.load_us) / 1000.0},
        {"form", stage.ready.form},
        {"form_ms", static_cast<double>(stage.ready.compile_us) / 1000.0},
        {"resident_bytes", pong.resident_bytes},
        {"anonymous_bytes", pong.anonymous_bytes},
    };
    if (const auto process = session.process_id(stage.entry.address)) row["process"] = *process;
    stages.push_back(std::move(row));
  }
  const coordinator::ChainPlan& plan = session.chain().plan();
  const sched::SchedulerStats work = session.generator().stats().scheduler;
  nlohmann::json json = {{"stages", std::move(stages)},
                         {"work", to_json(work)},
                         {"profile", to_string(plan.profile)},
                         {"engine", to_string(plan.engine)},
                         {"link_precision", to_string(plan.link_precision)},
                         {"context_tokens", plan.context_tokens},
                         {"kv_tokens", kv_tokens(plan)},
                         {"start_ms", to_milliseconds(session.start_time())}};
  if (session.drafter() != nullptr) json["draft"] = to_json(*session.drafter());
  return json;
}

Result<std::string> summary(ChainSession& session, const coordinator::Generation& generation) {
  PACELINE_ASSIGN_OR_RETURN(const auto pongs, session.chain().status());
  std::string text;
  std::size_t index = 0;
  for (const coordinator::StageReport& stage : session.chain().stages()) {
    text +=
        fmt::format("stage {}  {}  layers {}-{}  weights {}  KV {}  resident {} ({} anonymous)\n",
                    index++, stage.entry.address, stage.entry.layers.begin, stage.entry.layers.end,
                    human_bytes(stage.ready.weight_bytes), human_bytes(stage.ready.kv_bytes),
                    human_bytes(pongs.at(stage.entry.address).resident_bytes),
                    human_bytes(pongs.at(stage.entry.address).anonymous_bytes));
  }
  const coordinator::ChainPlan& plan = session.chain().plan();
  text += fmt::format("context {} tokens, KV for {} tokens of all sequences\n", plan.context_tokens,
                      kv_tokens(plan));
  text += fmt::format(
      "{} prompt tokens, TTFT {:.0f} ms; {} tokens, {:.1f} tokens/s; ready in {:.1f} s\n",
      generation.prompt_tokens, to_milliseconds(generation.time_to_first_token),
      generation.tokens.size(), generation.decode_tokens_per_second(),
      to_milliseconds(session.start_time()) / 1000.0);
  if (session.drafter() == nullptr) return text;
  const draft::DrafterStats draft = session.drafter()->stats();
  const sched::SchedulerStats work = session.generator().stats().scheduler;
  text += fmt::format(
      "draft model: {} tokens guessed in {:.1f} ms each; {} of {} drafts accepted\n", draft.guesses,
      session.drafter()->guess_us() / 1000.0, work.accepted_drafts, work.drafted_tokens);
  if (draft.failure) text += fmt::format("it failed: {}\n", draft.failure->message());
  return text;
}

}  // namespace paceline::cli
