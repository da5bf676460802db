// The golden models can tell: each flag of a configuration, changed alone, makes the comparison
// with Hugging Face transformers fail by far.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include <openvino/openvino.hpp>

#include "compiler/golden_model_testing.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using model::DecoderConfig;
using model::LayerConfig;
using model::NormPlacement;
using model::QueryKeyNorm;
using model::RopeScaling;

/// What a changed flag must exceed: ten times the bound that right ones keep.
constexpr double kVisible = 1e-3;

using Change = std::function<void(DecoderConfig&)>;
using Flips = std::map<std::string, Change>;

void add_rope_flips(const DecoderConfig& config, std::size_t index, Flips& flips) {
  const model::RopeConfig& rope = config.ropes[index];
  const std::string name = fmt::format("rope {} ", index);
  const auto add = [&](const char* flag, const std::function<void(model::RopeConfig&)>& change) {
    flips[name + flag] = [=](DecoderConfig& c) { change(c.ropes[index]); };
  };
  add("theta", [](auto& r) { r.theta *= 2; });
  add("attention factor", [](auto& r) { r.attention_factor *= 1.1F; });
  add("divisors", [&](auto& r) { r.divisors.assign(config.rope_dimensions / 2, 1.5F); });
  if (rope.scaling == RopeScaling::kNone) return;
  add("scaling", [](auto& r) { r.scaling = RopeScaling::kNone; });
  const bool is_long = rope.scaling == RopeScaling::kLongRope;
  if (!is_long) add("factor", [](auto& r) { r.factor *= 2; });
  if (rope.scaling == RopeScaling::kLinear) return;
  // Longrope: the other run's prompt is not longer than half the context.
  add("original context", [=](auto& r) { r.original_context_tokens *= is_long ? 4 : 2; });
  if (rope.scaling == RopeScaling::kLlama3) {
    add("low frequency factor", [](auto& r) { r.low_frequency_factor *= 2; });
    add("high frequency factor", [](auto& r) { r.high_frequency_factor *= 2; });
  }
  if (rope.scaling == RopeScaling::kYarn) {
    add("beta fast", [](auto& r) { r.beta_fast *= 4; });
    add("beta slow", [](auto& r) { r.beta_slow /= 4; });
    add("truncate", [](auto& r) { r.truncate = false; });
  }
  if (is_long) {
    add("short factors", [](auto& r) { r.short_factors = r.long_factors; });
    add("long factors", [](auto& r) { r.long_factors = r.short_factors; });
  }
}

void add_layer_flips(const DecoderConfig& config, std::size_t index, Flips& flips) {
  const LayerConfig& layer = config.layers[index];
  const std::string name = fmt::format("layer {} ", index);
  const auto add = [&](const char* flag, const std::function<void(LayerConfig&)>& change) {
    flips[name + flag] = [=](DecoderConfig& c) { change(c.layers[index]); };
  };
  add("window", [](auto& l) { l.window_tokens = l.window_tokens == 0 ? 16 : 0; });
  if (layer.window_tokens != 0) add("window size", [](auto& l) { l.window_tokens += 1; });
  const bool has_rope = layer.rope != LayerConfig::kNoRope;
  add("rope", [=](auto& l) { l.rope = has_rope ? LayerConfig::kNoRope : 0; });
  if (has_rope && config.ropes.size() > 1) add("rope table", [](auto& l) { l.rope = 1 - l.rope; });
}

void add_attention_flips(const DecoderConfig& config, Flips& flips) {
  flips["rope dimensions"] = [](DecoderConfig& c) {
    c.rope_dimensions -= 2;
    for (auto& rope : c.ropes) {  // one of each frequency
      for (auto* factors : {&rope.short_factors, &rope.long_factors, &rope.divisors}) {
        if (!factors->empty()) factors->pop_back();
      }
    }
  };
  flips["attention scale"] = [](DecoderConfig& c) {
    c.attention_scale = c.attention_scale == 0.0F ? 0.3F : 0.0F;
  };
  flips["attention softcap"] = [](DecoderConfig& c) {
    c.attention_softcap = c.attention_softcap == 0.0F ? 1.0F : 0.0F;
  };
  if (config.query_key_norm != QueryKeyNorm::kNone) {
    flips["query key norm"] = [](DecoderConfig& c) { c.query_key_norm = QueryKeyNorm::kNone; };
  }
  if (config.query_key_value_bias) {
    flips["query key value bias"] = [](DecoderConfig& c) { c.query_key_value_bias = false; };
  }
  if (config.attention_output_bias) {
    flips["attention output bias"] = [](DecoderConfig& c) { c.attention_output_bias = false; };
  }
}

void add_block_flips(const DecoderConfig& config, Flips& flips) {
  for (const auto placement :
       {NormPlacement::kBefore, NormPlacement::kAfter, NormPlacement::kBoth}) {
    if (placement == config.norms) continue;
    flips[fmt::format("norms {}", static_cast<int>(placement))] = [=](DecoderConfig& c) {
      c.norms = placement;
    };
  }
  flips["activation"] = [](DecoderConfig& c) {
    const bool is_silu = c.activation == model::Activation::kSilu;
    c.activation = is_silu ? model::Activation::kGeluTanh : model::Activation::kSilu;
  };
  flips["epsilon"] = [](DecoderConfig& c) { c.rms_norm_epsilon *= 100; };
  flips["norm weight offset"] = [](DecoderConfig& c) {
    c.norm_weight_offset = 1 - c.norm_weight_offset;
  };
  if (config.feed_forward_bias) {
    flips["feed-forward bias"] = [](DecoderConfig& c) { c.feed_forward_bias = false; };
  }
  if (config.experts.count != 0) {
    flips["experts used"] = [](DecoderConfig& c) { c.experts.used += 1; };
    flips["experts normalized"] = [](DecoderConfig& c) {
      c.experts.normalized = !c.experts.normalized;
    };
  }
}

void add_model_flips(const DecoderConfig& config, Flips& flips) {
  flips["logit softcap"] = [](DecoderConfig& c) {
    c.logit_softcap = c.logit_softcap == 0.0F ? 5.0F : 0.0F;
  };
  flips["embedding multiplier"] = [](DecoderConfig& c) {
    c.embedding_multiplier = c.embedding_multiplier == 1.0F ? 2.0F : 1.0F;
  };
  flips["residual multiplier"] = [](DecoderConfig& c) {
    c.residual_multiplier = c.residual_multiplier == 1.0F ? 0.5F : 1.0F;
  };
  flips["logit multiplier"] = [](DecoderConfig& c) {
    c.logit_multiplier = c.logit_multiplier == 1.0F ? 0.5F : 1.0F;
  };
  if (!config.tied_head) flips["tied head"] = [](DecoderConfig& c) { c.tied_head = true; };
}

/// Every change that applies; of layers, those of the first of each kind.
Flips flips_of(const DecoderConfig& config) {
  Flips flips;
  std::set<std::pair<std::uint32_t, std::int32_t>> kinds;
  for (std::size_t i = 0; i < config.ropes.size(); ++i) add_rope_flips(config, i, flips);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    if (kinds.emplace(layer.window_tokens, layer.rope).second) add_layer_flips(config, i, flips);
  }
  add_attention_flips(config, flips);
  add_block_flips(config, flips);
  add_model_flips(config, flips);
  return flips;
}

class ArchitectureFlagsTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden_ = read_golden(GetParam());
    directory_ =
        fs::temp_directory_path() / fmt::format("paceline-flags-{}-{}", GetParam(), ::getpid());
    fs::create_directories(directory_);
    source_ = draw_tensors(GetParam());
  }
  void TearDown() override { fs::remove_all(directory_); }

  /// With norms that the model has not, for other placements; what they hold does not matter.
  TensorPlan plan(const DecoderConfig& config) const {
    TensorPlan plan = plan_tensors(*source_, config).value();
    std::map<std::string, PlannedTensor> norms;
    for (const PlannedTensor& tensor : plan.tensors) norms[tensor.name] = tensor;
    for (std::size_t i = 0; i < config.layers.size(); ++i) {
      for (const char* name :
           {"input_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
        const std::string prefix = fmt::format("model.layers.{}.", i);
        PlannedTensor norm = norms.at(prefix + "post_attention_layernorm.weight");
        norm.name = prefix + name + ".weight";
        if (!norms.contains(norm.name)) plan.tensors.push_back(norm);
      }
    }
    return plan;
  }

  /// The worst of all runs.
  double difference(const DecoderConfig& config) {
    ov::InferRequest request =
        core_.compile_model(weights_->graph(config, core_), "CPU", exact_properties())
            .create_infer_request();
    double worst = 0;
    for (std::size_t run = 0; run < golden_.prefills.size(); ++run) {
      const auto logits = run_golden(request, golden_, golden_.prefills[run]);
      worst = std::max(worst, golden_difference(golden_, logits, golden_.logits[run]));
    }
    return worst;
  }

  ov::Core core_;
  fs::path directory_;
  GoldenModel golden_;
  std::unique_ptr<model::TensorSource> source_;
  std::unique_ptr<GoldenWeights> weights_;
};

TEST_P(ArchitectureFlagsTest, EachFlagShows) {
  const DecoderConfig config = golden_config(GetParam());
  weights_ = std::make_unique<GoldenWeights>(*source_, plan(config), directory_ / "weights.bin");
  ASSERT_LE(difference(config), 1e-4);
  double smallest = INFINITY;
  std::string smallest_name;
  for (const auto& [name, change] : flips_of(config)) {
    DecoderConfig changed = config;
    change(changed);
    const double found = difference(changed);
    EXPECT_GT(found, kVisible) << name;
    if (found < smallest) smallest_name = name;
    smallest = std::min(smallest, found);
  }
  std::printf("%s: %zu flags, the least visible (%s) %.1e\n", GetParam().c_str(),
              flips_of(config).size(), smallest_name.c_str(), smallest);
}

INSTANTIATE_TEST_SUITE_P(All, ArchitectureFlagsTest, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace paceline::compiler
