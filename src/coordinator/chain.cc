#include "coordinator/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "wire/int8_rows.h"
#include "wire/limits.h"
#include "wire/step_parts.h"

namespace paceline::coordinator {
namespace {

constexpr auto kLoadTimeout = std::chrono::minutes(30);
constexpr auto kStatusTimeout = std::chrono::seconds(5);
/// Of the warm-up; sequences of requests count up from 1.
constexpr SequenceId kWarmUpSequence{UINT64_MAX};

/// Rows of token 0 in the first block; the last one is sampled.
wire::Step warm_up_rows(std::uint32_t past_tokens, std::uint32_t new_tokens) {
  wire::StepSequence rows;
  rows.sequence = kWarmUpSequence;
  rows.past_tokens = past_tokens;
  rows.new_tokens = new_tokens;
  rows.tokens.assign(new_tokens, std::int64_t{0});
  rows.sampled_rows = {new_tokens - 1};
  rows.blocks = {{BlockId(0)}};
  wire::Step step;
  step.sequences.push_back(std::move(rows));
  return step;
}

std::uint64_t row_bytes(const wire::BoundarySpec& boundary, LinkPrecision precision) {
  std::uint64_t values = 1;
  for (const std::uint64_t extent : boundary.row_shape) values *= extent;
  if (precision == LinkPrecision::kInt8) return wire::int8_row_bytes(values);
  return values * size_bytes(boundary.type);
}

ChainId random_chain_id() {
  std::random_device device;
  return ChainId(std::uint64_t{device()} << 32U | device());
}

}  // namespace

Chain::Chain(std::unique_ptr<WorkerPool> pool, ChainPlan plan, const Clock& clock)
    : pool_(std::move(pool)), plan_(std::move(plan)), clock_(clock), id_(random_chain_id()) {}

wire::Address Chain::address(std::size_t stage, StepId step) const {
  return {id_, Epoch(1), StageId(static_cast<std::uint32_t>(stage)), step};
}

Result<std::unique_ptr<Chain>> Chain::start(std::unique_ptr<WorkerPool> pool, ChainPlan plan,
                                            const Clock& clock) {
  std::unique_ptr<Chain> chain(new Chain(std::move(pool), std::move(plan), clock));
  PACELINE_RETURN_IF_ERROR(chain->set_up_parts());
  PACELINE_RETURN_IF_ERROR(chain->assign());
  chain->count_hops();
  PACELINE_RETURN_IF_ERROR(chain->warm_up());
  return chain;
}

/// What goes to which stage, and what comes from whom.
Status Chain::set_up_parts() {
  const std::size_t stages = plan_.route.size();
  const std::string& last = plan_.route.back().address;
  pool_->expect_results_from(last);
  constexpr auto kNeeded = wire::Kind::kStepSampling;
  const auto& welcomes = pool_->welcomes();
  const auto older = std::find_if(welcomes.begin(), welcomes.end(), [](const auto& welcome) {
    return welcome.second.version < wire::version_of(kNeeded);
  });
  is_sampled_apart_ = stages > 1 && older == welcomes.end();
  if (plan_.home.empty() || stages < 2) return {};
  if (older != welcomes.end()) {
    return fail(ErrorCode::kFailedPrecondition,
                "worker {}: speaks protocol version {}, a private chain needs {}: update it",
                older->first, older->second.version, wire::version_of(kNeeded));
  }
  pool_->pass_on({plan_.route[stages - 2].address, address(stages - 1, StepId(0)), last});
  return {};
}

Status Chain::assign() {
  wire::AssignStage assignment;
  assignment.package_digest = plan_.package_digest;
  assignment.profile = plan_.profile;
  assignment.engine = plan_.engine;
  assignment.link_precision = plan_.link_precision;
  assignment.threads = plan_.threads;
  assignment.context_tokens = plan_.context_tokens;
  assignment.kv_blocks = plan_.kv_blocks;
  assignment.logical_block_tokens = plan_.logical_block_tokens;
  assignment.route = plan_.route;
  for (wire::RouteEntry& entry : assignment.route) {
    if (entry.address == plan_.home) entry.address.clear();
  }
  for (std::size_t stage = 0; stage < plan_.route.size(); ++stage) {
    assignment.layers = plan_.route[stage].layers;
    PACELINE_RETURN_IF_ERROR(
        pool_->send(plan_.route[stage].address, {address(stage, StepId(0)), assignment, {}}));
  }
  const auto deadline = Deadline::after(kLoadTimeout, clock_.now());
  for (std::size_t stage = 0; stage < plan_.route.size(); ++stage) {
    StageReport report;
    report.entry = plan_.route[stage];
    report.worker_name = pool_->welcomes().at(report.entry.address).name;
    PACELINE_ASSIGN_OR_RETURN(
        report.ready, pool_->await_ready(StageId(static_cast<std::uint32_t>(stage)), deadline));
    if (report.ready.engine != plan_.engine) {
      return fail(ErrorCode::kUnimplemented,
                  "worker {} was asked for the {} engine and loaded the {} one: update it",
                  report.entry.address, to_string(plan_.engine), to_string(report.ready.engine));
    }
    if (report.ready.link_precision != plan_.link_precision) {
      return fail(ErrorCode::kUnimplemented,
                  "worker {} was asked for {} links and has {} ones: update it",
                  report.entry.address, to_string(plan_.link_precision),
                  to_string(report.ready.link_precision));
    }
    stages_.push_back(std::move(report));
  }
  return {};
}

void Chain::count_hops() {
  for (std::size_t stage = 0; stage + 1 < stages_.size(); ++stage) {
    std::uint64_t bytes = 0;
    for (const wire::BoundarySpec& boundary : stages_[stage].ready.output_boundary) {
      bytes += row_bytes(boundary, plan_.link_precision);
    }
    hop_row_bytes_.push_back(bytes);
  }
}

void Chain::limit(sched::SchedulerOptions& options) const {
  for (const StageReport& stage : stages_) {
    const std::uint32_t most = stage.ready.max_sequences;
    if (most > 0) options.max_running = std::min(options.max_running, most);
    if (stage.ready.keeps_kv_apart) options.shares_kv = false;
  }
  if (mean_width() == 0) return;
  const std::uint64_t means = wire::Limits().mean_values / mean_width();
  options.max_sums = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.max_sums, means));
}

std::string Chain::why_no_grammars() const {
  const StageReport& last = stages_.back();
  if (last.ready.masks_grammars) return {};
  return fmt::format(
      "worker {} has the last stage and masks no tokens: it is of an older version, or its package "
      "has no tokenizer.json",
      last.entry.address);
}

std::string Chain::why_no_means() const {
  if (mean_width() > 0 && mean_width() <= wire::Limits().mean_values) return {};
  return fmt::format(
      "worker {} has the last stage and gives no means of hidden states: it is of an older "
      "version, or its model has no place to read them from",
      stages_.back().entry.address);
}

Status Chain::warm_up() {
  // A prefill and a decode that together fill the first block: devices have kernels for both.
  const std::uint32_t prefill_rows = plan_.logical_block_tokens - 1;
  wire::Step prefill = warm_up_rows(0, prefill_rows);
  prefill.opened.emplace_back();
  prefill.opened.front().sequence = kWarmUpSequence;
  wire::Step end;
  end.sequences.emplace_back();
  end.sequences.front().sequence = kWarmUpSequence;
  end.sequences.front().operations = {wire::Free()};
  std::vector<StepId> steps;
  std::array all = {std::move(prefill), warm_up_rows(prefill_rows, 1), std::move(end)};
  for (wire::Step& step : all) {
    PACELINE_ASSIGN_OR_RETURN(const StepId id, submit(std::move(step)));
    steps.push_back(id);
  }
  const auto deadline = Deadline::after(kLoadTimeout, clock_.now());
  for (const StepId step : steps) PACELINE_RETURN_IF_ERROR(await(step, deadline));
  return {};
}

Result<StepId> Chain::submit(wire::Step step) {
  const StepId id(last_step_.value() + 1);
  if (is_sampled_apart_) {
    // First, so that the last stage need not wait for it.
    wire::StepSampling sampling = wire::split_sampling(step);
    PACELINE_RETURN_IF_ERROR(
        pool_->send(plan_.route.back().address,
                    {address(plan_.route.size() - 1, id), std::move(sampling), {}}));
  }
  PACELINE_RETURN_IF_ERROR(
      pool_->send(plan_.route.front().address, {address(0, id), std::move(step), {}}));
  last_step_ = id;
  return id;
}

Result<std::optional<wire::StepResult>> Chain::await(StepId step, Deadline deadline) {
  return pool_->await_result(step, deadline);
}

void Chain::wake() { pool_->wake(); }

Result<std::map<std::string, wire::Pong>> Chain::status() {
  return pool_->ping_all(Deadline::after(kStatusTimeout, clock_.now()));
}

}  // namespace paceline::coordinator
