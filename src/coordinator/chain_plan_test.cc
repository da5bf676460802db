#include "coordinator/chain_plan.h"

#include <gmock/gmock.h>

#include "shard/stage_memory.h"

namespace paceline::coordinator {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1ULL << 20;

/// Layers of 10 MiB, an embedding of 5 MiB that is the head, too; 4 KiB of KV (f32) a token and
/// layer.
shard::Manifest model(std::uint32_t layers) {
  shard::Manifest manifest;
  manifest.digest = "abcdef0123456789";
  manifest.layers = layers;
  manifest.context_tokens = 2048;
  manifest.kv.assign(layers, {8, 64, 64});
  shard::Parts tied = shard::Parts::of_embedding();
  tied.add(shard::Parts::of_head());
  manifest.extents.push_back({0, 5 * kMiB, {}, tied});
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    manifest.extents.push_back(
        {(5 + 10 * layer) * kMiB, 10 * kMiB, {}, shard::Parts::of_layers({layer, layer + 1})});
  }
  manifest.weight_bytes = (5 + 10ULL * layers) * kMiB;
  return manifest;
}

wire::Welcome welcome(std::uint64_t available) {
  wire::Welcome result;
  result.packages = {{"ffff", "another"}, {"abcdef0123456789", "this"}};
  result.available_bytes = available;
  return result;
}

using Welcomes = std::map<std::string, wire::Welcome>;

ChainSettings settings_for(const Welcomes& welcomes) {
  ChainSettings settings;
  settings.profile = Profile::kExact;
  for (const auto& [address, welcome] : welcomes) settings.workers.push_back(address);
  return settings;
}

void expect_refused(const Result<ChainPlan>& plan, ErrorCode code,
                    const std::vector<std::string>& parts) {
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code(), code) << plan.error().message();
  for (const auto& part : parts) EXPECT_THAT(plan.error().message(), HasSubstr(part));
}

TEST(ChainPlanTest, LayersAreDividedByBytes) {
  const Welcomes welcomes = {{"a:1", welcome(8192 * kMiB)}, {"b:1", welcome(8192 * kMiB)}};
  auto settings = settings_for(welcomes);
  settings.threads = 3;
  const auto plan = plan_chain(model(30), welcomes, settings);
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_EQ(plan->route.size(), 2U);
  EXPECT_EQ(plan->route[0], (wire::RouteEntry{"a:1", {0, 15}}));
  EXPECT_EQ(plan->route[1], (wire::RouteEntry{"b:1", {15, 30}}));
  EXPECT_EQ(plan->package_digest, "abcdef0123456789");
  EXPECT_EQ(plan->profile, Profile::kExact);
  EXPECT_EQ(plan->threads, 3U);
  EXPECT_EQ(plan->logical_block_tokens, 32U);
}

TEST(ChainPlanTest, WeightsAreNumbersOfLayers) {
  const Welcomes welcomes = {{"a:1", welcome(8192 * kMiB)}, {"b:1", welcome(8192 * kMiB)}};
  auto settings = settings_for(welcomes);
  settings.weights = {10, 20};
  const auto plan = plan_chain(model(30), welcomes, settings);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->route[0].layers, (LayerRange{0, 10}));
  EXPECT_EQ(plan->route[1].layers, (LayerRange{10, 30}));
  settings.weights = {1, 2, 3};
  expect_refused(plan_chain(model(30), welcomes, settings), ErrorCode::kInvalidArgument,
                 {"--split has 3 weights for 2 stages"});
}

TEST(ChainPlanTest, AnEngineOfOneSequenceHasKvForOneContext) {
  const Welcomes welcomes = {{"a:1", welcome(8192 * kMiB)}};
  auto settings = settings_for(welcomes);
  settings.context_tokens = 100;
  EXPECT_GT(plan_chain(model(4), welcomes, settings)->kv_blocks, 4U);
  settings.engine = EngineKind::kStateful;
  const auto plan = plan_chain(model(4), welcomes, settings);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->engine, EngineKind::kStateful);
  EXPECT_EQ(plan->kv_blocks, 4U);
  EXPECT_EQ(plan->context_tokens, 100U);
}

TEST(ChainPlanTest, Int8LinksAreForTheFastProfile) {
  const Welcomes welcomes = {{"a:1", welcome(8192 * kMiB)}, {"b:1", welcome(8192 * kMiB)}};
  auto settings = settings_for(welcomes);
  EXPECT_EQ(plan_chain(model(4), welcomes, settings)->link_precision, LinkPrecision::kNative);
  settings.link_precision = LinkPrecision::kInt8;
  settings.profile = Profile::kFast;
  EXPECT_EQ(plan_chain(model(4), welcomes, settings)->link_precision, LinkPrecision::kInt8);
  settings.profile = Profile::kExact;
  expect_refused(plan_chain(model(4), welcomes, settings), ErrorCode::kInvalidArgument,
                 {"--link-precision int8 with --profile exact", "use native, or --profile fast"});
}

TEST(ChainPlanTest, MoreStagesThanLayersAreRefused) {
  const Welcomes welcomes = {{"a:1", welcome(8192 * kMiB)}, {"b:1", welcome(8192 * kMiB)}};
  expect_refused(plan_chain(model(1), welcomes, settings_for(welcomes)),
                 ErrorCode::kInvalidArgument,
                 {"at most 1, one for each layer of the model, got 2"});
  expect_refused(plan_chain(model(1), {}, {}), ErrorCode::kInvalidArgument, {"stage"});
}

TEST(ChainPlanTest, TheContextIsTheModelsOrTheGivenOne) {
  const Welcomes welcomes = {{"a:1", welcome(8192 * kMiB)}};
  auto settings = settings_for(welcomes);
  EXPECT_EQ(plan_chain(model(4), welcomes, settings)->context_tokens, 2048U);
  EXPECT_EQ(plan_chain(model(4), welcomes, settings)->kv_blocks, 2048U) << "1 GiB";
  settings.context_tokens = 100;
  EXPECT_EQ(plan_chain(model(4), welcomes, settings)->context_tokens, 100U);
  settings.kv_memory_bytes = 130 * 4 * 4096;
  EXPECT_EQ(plan_chain(model(4), welcomes, settings)->kv_blocks, 4U) << "whole blocks";
  settings.kv_memory_bytes = 0;
  auto unknown = model(4);
  unknown.context_tokens = 0;
  settings.context_tokens = 0;
  EXPECT_EQ(plan_chain(unknown, welcomes, settings)->context_tokens, 4096U);
}

TEST(ChainPlanTest, TheContextShrinksToWhatFitsAndAGivenOneDoesNot) {
  const auto manifest = model(4);
  const auto fixed =
      shard::estimate_stage_memory(manifest, {0, 4}, Profile::kExact, 0).total_bytes();
  const std::uint64_t per_token = 4 * 4096;
  ASSERT_EQ(shard::paged_kv_bytes_per_token(manifest, {0, 4}, Profile::kExact), per_token);
  const Welcomes welcomes = {{"a:1", welcome(fixed + 1000 * per_token)}};
  auto settings = settings_for(welcomes);
  const auto plan = plan_chain(manifest, welcomes, settings);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->kv_blocks, 31U);
  EXPECT_EQ(plan->context_tokens, 992U) << "the blocks' tokens";
  settings.context_tokens = 1500;
  expect_refused(plan_chain(manifest, welcomes, settings), ErrorCode::kResourceExhausted,
                 {"1500 tokens", "16384 bytes per token", "room for 1000 tokens", "--ctx"});
}

TEST(ChainPlanTest, KvMemoryIsForManySequences) {
  const Welcomes welcomes = {{"a:1", welcome(8192 * kMiB)}, {"b:1", welcome(8192 * kMiB)}};
  auto settings = settings_for(welcomes);
  settings.context_tokens = 256;
  settings.kv_memory_bytes = 64 * kMiB;
  // On each machine; a token takes 2 x 4 KiB there.
  const auto plan = plan_chain(model(4), welcomes, settings);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->kv_blocks, 64U * 1024 / 8 / 32);
  EXPECT_EQ(plan->context_tokens, 256U);
  settings.kv_memory_bytes = 1ULL << 40;
  const auto all = plan_chain(model(4), welcomes, settings);
  ASSERT_TRUE(all);
  EXPECT_GT(all->kv_blocks, 7000U * 1024 / 8 / 32) << "no more than there is";
  EXPECT_LT(all->kv_blocks, 8192U * 1024 / 8 / 32);
  settings.kv_memory_bytes = kMiB;
  expect_refused(
      plan_chain(model(4), welcomes, settings), ErrorCode::kResourceExhausted,
      {"256 tokens", "in --kv-memory there is room for 128 tokens", "raise --kv-memory"});
  settings.context_tokens = 0;
  EXPECT_EQ(plan_chain(model(4), welcomes, settings)->context_tokens, 128U);
}

TEST(ChainPlanTest, AModelThatDoesNotFitIsRefusedWithTheNumbers) {
  const Welcomes welcomes = {{"10.0.0.1:1", welcome(100 * kMiB)}};
  const auto needed =
      shard::estimate_stage_memory(model(30), {0, 30}, Profile::kExact, 0).total_bytes();
  expect_refused(plan_chain(model(30), welcomes, settings_for(welcomes)),
                 ErrorCode::kResourceExhausted,
                 {"10.0.0.1", std::to_string(needed / kMiB) + " MiB", "100 MiB are free"});
  const Welcomes nearly = {{"10.0.0.1:1", welcome(needed + 1000)}};
  expect_refused(plan_chain(model(30), nearly, settings_for(nearly)), ErrorCode::kResourceExhausted,
                 {"room for 0 tokens"});
}

TEST(ChainPlanTest, WorkersOfOneHostShareItsMemory) {
  const auto manifest = model(30);
  const auto half =
      shard::estimate_stage_memory(manifest, {0, 15}, Profile::kExact, 2048).total_bytes();
  const std::uint64_t enough_for_one = half + half / 2;
  const Welcomes two_hosts = {{"a:1", welcome(enough_for_one)}, {"b:1", welcome(enough_for_one)}};
  EXPECT_EQ(plan_chain(manifest, two_hosts, settings_for(two_hosts))->context_tokens, 2048U);
  const Welcomes one_host = {{"a:1", welcome(enough_for_one)}, {"a:2", welcome(enough_for_one)}};
  expect_refused(plan_chain(manifest, one_host, settings_for(one_host)),
                 ErrorCode::kResourceExhausted, {"a: the weights and processes of its 2 stages"});
  // Names of this machine are one host.
  const Welcomes local = {{"127.0.0.1:1", welcome(enough_for_one)},
                          {"localhost:2", welcome(enough_for_one)}};
  expect_refused(plan_chain(manifest, local, settings_for(local)), ErrorCode::kResourceExhausted,
                 {"this machine: the weights and processes of its 2 stages"});
}

TEST(ChainPlanTest, AWorkerThatStandsInTheRouteTwiceIsOneProcess) {
  const auto manifest = model(4);
  const auto memory = [&](LayerRange layers) {
    return shard::estimate_stage_memory(manifest, layers, Profile::kExact, 64);
  };
  const std::uint64_t exactly =
      memory({0, 2}).total_bytes() + memory({2, 4}).total_bytes() - memory({2, 4}).process_bytes;
  const Welcomes welcomes = {{"a:1", welcome(exactly)}};
  ChainSettings settings = settings_for(welcomes);
  settings.workers = {"a:1", "a:1"};
  settings.context_tokens = 64;
  EXPECT_TRUE(plan_chain(manifest, welcomes, settings));
  const Welcomes less = {{"a:1", welcome(exactly - 1)}};
  EXPECT_FALSE(plan_chain(manifest, less, settings));
}

/// Two workers, and this machine before and behind them.
ChainSettings private_settings(Welcomes& welcomes, std::uint32_t layers) {
  welcomes = {{"a:1", welcome(8192 * kMiB)}, {"b:1", welcome(8192 * kMiB)}};
  ChainSettings settings = settings_for(welcomes);
  settings.private_layers = layers;
  settings.home = "127.0.0.1:5";
  welcomes.emplace(settings.home, welcome(8192 * kMiB));
  return settings;
}

TEST(ChainPlanTest, APrivateChainBeginsAndEndsAtHome) {
  Welcomes welcomes;
  auto settings = private_settings(welcomes, 3);
  const auto plan = plan_chain(model(30), welcomes, settings);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->home, "127.0.0.1:5");
  const std::vector<wire::RouteEntry> by_bytes = {
      {"127.0.0.1:5", {0, 3}}, {"a:1", {3, 15}}, {"b:1", {15, 27}}, {"127.0.0.1:5", {27, 30}}};
  EXPECT_EQ(plan->route, by_bytes);
  settings.weights = {1, 3};
  const auto weighted = plan_chain(model(30), welcomes, settings);
  ASSERT_TRUE(weighted) << weighted.error().message();
  const std::vector<wire::RouteEntry> by_weights = {
      {"127.0.0.1:5", {0, 3}}, {"a:1", {3, 9}}, {"b:1", {9, 27}}, {"127.0.0.1:5", {27, 30}}};
  EXPECT_EQ(weighted->route, by_weights);
}

TEST(ChainPlanTest, PrivateLayersLeaveOneForEachWorker) {
  Welcomes welcomes;
  const auto settings = private_settings(welcomes, 2);
  EXPECT_TRUE(plan_chain(model(6), welcomes, settings));
  expect_refused(plan_chain(model(5), welcomes, settings), ErrorCode::kInvalidArgument,
                 {"--private-layers 2 keeps 4 of the model's 5 layers here and leaves 1",
                  "but the stages between, 2, need one each; use 1 at most, or fewer stages"});
  expect_refused(plan_chain(model(3), welcomes, settings), ErrorCode::kInvalidArgument,
                 {"leaves 0, but the stages between, 2, need one each; use fewer stages"});
}

TEST(ChainPlanTest, BothEndsOfAPrivateChainCountAtHome) {
  const auto manifest = model(6);
  Welcomes welcomes;
  auto settings = private_settings(welcomes, 1);
  settings.context_tokens = 64;
  const auto memory = [&](LayerRange layers) {
    return shard::estimate_stage_memory(manifest, layers, Profile::kExact, 64);
  };
  const std::uint64_t exactly =
      memory({0, 1}).total_bytes() + memory({5, 6}).total_bytes() - memory({5, 6}).process_bytes;
  welcomes[settings.home].available_bytes = exactly;
  EXPECT_TRUE(plan_chain(manifest, welcomes, settings));
  welcomes[settings.home].available_bytes = exactly - 1;
  expect_refused(plan_chain(manifest, welcomes, settings), ErrorCode::kResourceExhausted,
                 {"a context of 64 tokens does not fit"});
}

TEST(ChainPlanTest, AWorkerWithoutThePackageIsNamed) {
  Welcomes welcomes = {{"a:1", welcome(8192 * kMiB)}, {"b:1", welcome(8192 * kMiB)}};
  welcomes["b:1"].packages.pop_back();
  expect_refused(plan_chain(model(4), welcomes, settings_for(welcomes)), ErrorCode::kNotFound,
                 {"worker b:1 does not have this package", "abcdef012345"});
}

}  // namespace
}  // namespace paceline::coordinator
