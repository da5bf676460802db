#include "model/gguf_architectures.h"

#include <array>

namespace paceline::model {
namespace {

constexpr std::array<GgufArchitecture, 10> kArchitectures = {{
    // Mistral and Mixtral too.
    {.name = "llama",
     .interleaved_rope_rows = true,
     .windows = GgufWindows::kAll,
     .has_rope_divisors = true,
     .experts = GgufExperts::kOptional},
    {.name = "qwen2"},
    {.name = "qwen3", .query_key_norm = QueryKeyNorm::kPerHead},
    {.name = "qwen3moe", .query_key_norm = QueryKeyNorm::kPerHead, .experts = GgufExperts::kAlways},
    {.name = "phi3", .windows = GgufWindows::kAll, .has_long_rope = true},
    {.name = "gemma2",
     .activation = Activation::kGeluTanh,
     .norms = NormPlacement::kBoth,
     .windows = GgufWindows::kAllButPeriodic,
     .window_tokens = 4096,
     .window_period = 2,
     .scales_embedding = true,
     .attention_softcap = 50.0F,
     .logit_softcap = 30.0F,
     .has_softcaps = true,
     .layers_of_hidden_scale = 46},
    {.name = "gemma3",
     .activation = Activation::kGeluTanh,
     .norms = NormPlacement::kBoth,
     .query_key_norm = QueryKeyNorm::kPerHead,
     .windows = GgufWindows::kAllButPeriodic,
     .window_period = 6,
     .local_rope = GgufLocalRope::kUnscaledOwnBase,
     .scales_embedding = true,
     .has_softcaps = true,
     .layers_of_hidden_scale = 62},
    {.name = "smollm3", .interleaved_rope_rows = true, .no_rope_period = 4},
    // Those of OLMo 3 too, which have windows.
    {.name = "olmo2",
     .norms = NormPlacement::kAfter,
     .query_key_norm = QueryKeyNorm::kWhole,
     .windows = GgufWindows::kAllButPeriodic,
     .window_period = 4,
     .local_rope = GgufLocalRope::kUnscaled},
    {.name = "granite",
     .interleaved_rope_rows = true,
     .has_rope_divisors = true,
     .has_multipliers = true},
}};

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() { return kArchitectures; }

}  // namespace paceline::model
