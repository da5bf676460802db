#include "coordinator/chain_plan.h"

#include <algorithm>
#include <utility>

#include "net/endpoint.h"
#include "plan/divide.h"
#include "shard/stage_memory.h"

namespace paceline::coordinator {
namespace {

constexpr std::uint32_t kLogicalBlockTokens = 32;
constexpr std::uint64_t kMiB = 1ULL << 20;

/// Addresses of one host share its memory; this machine has several names.
std::string host_of(const std::string& address) {
  const auto endpoint = net::parse_endpoint(address);
  if (!endpoint) return address;
  return net::is_loopback(*endpoint) ? "this machine" : endpoint->host;
}

/// What one machine must hold, and what it has.
struct Host {
  std::uint64_t fixed_bytes = 0;  ///< weights and processes
  std::uint64_t kv_bytes_per_token = 0;
  std::uint64_t available_bytes = UINT64_MAX;
  std::vector<std::string> workers;
};

std::map<std::string, Host> hosts_of(const shard::Manifest& manifest,
                                     const std::map<std::string, wire::Welcome>& welcomes,
                                     const ChainPlan& plan) {
  std::map<std::string, Host> hosts;
  for (const wire::RouteEntry& entry : plan.route) {
    Host& host = hosts[host_of(entry.address)];
    auto memory = shard::estimate_stage_memory(manifest, entry.layers, plan.profile, 0);
    // A worker that stands in the route twice is one process.
    if (std::count(host.workers.begin(), host.workers.end(), entry.address) > 0) {
      memory.process_bytes = 0;
    }
    host.workers.push_back(entry.address);
    host.fixed_bytes += memory.total_bytes();
    host.kv_bytes_per_token +=
        shard::paged_kv_bytes_per_token(manifest, entry.layers, plan.profile);
    host.available_bytes =
        std::min(host.available_bytes, welcomes.at(entry.address).available_bytes);
  }
  return hosts;
}

/// Tokens of KV for which every machine has memory.
struct KvRoom {
  std::uint64_t fit = UINT32_MAX;     ///< beside the weights
  std::uint64_t wanted = UINT32_MAX;  ///< within what the settings give it
};

Result<KvRoom> kv_room(const std::map<std::string, Host>& hosts, std::uint64_t kv_memory) {
  KvRoom room;
  for (const auto& [name, host] : hosts) {
    if (host.fixed_bytes > host.available_bytes) {
      return fail(ErrorCode::kResourceExhausted,
                  "{}: the weights and processes of its {} stages need {} MiB, {} MiB are free; "
                  "use more machines",
                  name, host.workers.size(), host.fixed_bytes / kMiB, host.available_bytes / kMiB);
    }
    if (host.kv_bytes_per_token == 0) continue;
    const std::uint64_t left = host.available_bytes - host.fixed_bytes;
    const std::uint64_t given = kv_memory > 0 ? kv_memory : std::min(kKvMemoryBytes, left / 2);
    room.fit = std::min(room.fit, left / host.kv_bytes_per_token);
    room.wanted = std::min(room.wanted, given / host.kv_bytes_per_token);
  }
  return room;
}

Status choose_context(const shard::Manifest& manifest, const std::map<std::string, Host>& hosts,
                      const ChainSettings& settings, ChainPlan& plan) {
  PACELINE_ASSIGN_OR_RETURN(const KvRoom room, kv_room(hosts, settings.kv_memory_bytes));
  const bool is_given = settings.context_tokens > 0;
  const bool is_limited = settings.kv_memory_bytes > 0;
  const std::uint64_t most = is_limited ? std::min(room.fit, room.wanted) : room.fit;
  const std::uint64_t trained = manifest.context_tokens == 0 ? 4096 : manifest.context_tokens;
  const std::uint64_t context = is_given ? settings.context_tokens : std::min(trained, most);
  const std::uint64_t blocks = (context + kLogicalBlockTokens - 1) / kLogicalBlockTokens;
  if ((blocks * kLogicalBlockTokens > most && is_given) || most < kLogicalBlockTokens) {
    std::uint64_t kv_bytes = 0;
    for (const auto& [name, host] : hosts) kv_bytes += host.kv_bytes_per_token;
    const char* where = most < room.fit ? "in --kv-memory" : "after the weights";
    const char* what = most < room.fit ? "raise --kv-memory" : "use more machines";
    return fail(ErrorCode::kResourceExhausted,
                "a context of {} tokens does not fit: KV takes {} bytes per token, and {} there "
                "is room for {} tokens; lower --ctx or {}",
                context, kv_bytes, where, most, what);
  }
  const std::uint64_t one = is_given ? blocks : std::min(blocks, most / kLogicalBlockTokens);
  const std::uint64_t many = std::min(room.fit, room.wanted) / kLogicalBlockTokens;
  // A state is as long as its sequence: there is nothing to hold others in.
  const bool is_one = plan.engine == EngineKind::kStateful;
  plan.kv_blocks = static_cast<std::uint32_t>(is_one ? one : std::max(one, many));
  plan.context_tokens = static_cast<std::uint32_t>(std::min(context, one * kLogicalBlockTokens));
  return {};
}

Status check_packages(const shard::Manifest& manifest,
                      const std::map<std::string, wire::Welcome>& welcomes) {
  for (const auto& [address, welcome] : welcomes) {
    const auto& packages = welcome.packages;
    if (std::none_of(packages.begin(), packages.end(),
                     [&](const auto& held) { return held.digest == manifest.digest; })) {
      return fail(ErrorCode::kNotFound,
                  "worker {} does not have this package (digest {:.12}); start it with --package",
                  address, manifest.digest);
    }
  }
  return {};
}

/// By the bytes that a stage reads for a token; where weights are given, by numbers of layers. The
/// embedding is a look-up of one row, and stays in the mapped file: it counts as nothing.
Result<std::vector<LayerRange>> divide_layers(const shard::Manifest& manifest,
                                              const ChainSettings& settings) {
  const std::uint32_t kept = settings.private_layers;
  plan::LayerCosts costs;
  if (settings.weights.empty()) {
    const shard::PartBytes bytes = manifest.part_bytes();
    costs = {bytes.layers, 0, kept > 0 ? 0 : bytes.head, bytes.shared};
  } else {
    costs.layers.assign(manifest.layers, 1);
  }
  costs.layers.erase(costs.layers.end() - kept, costs.layers.end());
  costs.layers.erase(costs.layers.begin(), costs.layers.begin() + kept);
  auto ranges = settings.weights.empty()
                    ? plan::divide(costs, static_cast<std::uint32_t>(settings.workers.size()))
                    : plan::divide_by_weights(costs, settings.weights);
  if (!ranges) return ranges;
  for (LayerRange& range : *ranges) range = {range.begin + kept, range.end + kept};
  return ranges;
}

Status check_private_layers(const shard::Manifest& manifest, const ChainSettings& settings) {
  const std::uint64_t kept = 2ULL * settings.private_layers;
  const std::uint64_t workers = settings.workers.size();
  if (settings.private_layers == 0 || kept + workers <= manifest.layers) return {};
  const std::uint64_t most = workers < manifest.layers ? (manifest.layers - workers) / 2 : 0;
  return fail(
      ErrorCode::kInvalidArgument,
      "--private-layers {} keeps {} of the model's {} layers here and leaves {}, but the stages "
      "between, {}, need one each; {}",
      settings.private_layers, kept, manifest.layers,
      manifest.layers - std::min<std::uint64_t>(kept, manifest.layers), workers,
      most > 0 ? fmt::format("use {} at most, or fewer stages", most) : "use fewer stages");
}

}  // namespace

Result<ChainPlan> plan_chain(const shard::Manifest& manifest,
                             const std::map<std::string, wire::Welcome>& welcomes,
                             const ChainSettings& settings) {
  PACELINE_RETURN_IF_ERROR(check_packages(manifest, welcomes));
  const std::size_t stages = settings.workers.size();
  if (!settings.weights.empty() && settings.weights.size() != stages) {
    return fail(ErrorCode::kInvalidArgument, "--split has {} weights for {} stages",
                settings.weights.size(), stages);
  }
  PACELINE_RETURN_IF_ERROR(check_private_layers(manifest, settings));
  if (settings.profile == Profile::kExact && settings.link_precision != LinkPrecision::kNative) {
    return fail(ErrorCode::kInvalidArgument,
                "--link-precision {} with --profile exact, which promises the same tokens for any "
                "number of stages: use native, or --profile fast",
                to_string(settings.link_precision));
  }
  PACELINE_ASSIGN_OR_RETURN(const auto ranges, divide_layers(manifest, settings));
  ChainPlan plan;
  plan.package_digest = manifest.digest;
  plan.profile = settings.profile;
  plan.engine = settings.engine;
  plan.link_precision = settings.link_precision;
  plan.threads = settings.threads;
  plan.logical_block_tokens = kLogicalBlockTokens;
  const std::uint32_t kept = settings.private_layers;
  if (kept > 0) {
    plan.home = settings.home;
    plan.route.push_back({plan.home, {0, kept}});
  }
  for (std::size_t stage = 0; stage < stages; ++stage) {
    plan.route.push_back({settings.workers[stage], ranges[stage]});
  }
  if (kept > 0) plan.route.push_back({plan.home, {manifest.layers - kept, manifest.layers}});
  PACELINE_RETURN_IF_ERROR(
      choose_context(manifest, hosts_of(manifest, welcomes, plan), settings, plan));
  return plan;
}

}  // namespace paceline::coordinator
