#include "compiler/ir_directory.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "compiler/bin_file.h"
#include "compiler/builder.h"
#include "compiler/ir_xml.h"
#include "compiler/tensor_plan.h"
#include "compiler/weight_binder.h"
#include "compiler/weight_writer.h"
#include "system/files.h"

namespace paceline::compiler {
namespace {

using model::DecoderConfig;
using nlohmann::ordered_json;

/// One id, or a list where there are several, as Hugging Face's files have it.
void set_eos(const DecoderConfig& config, ordered_json& json) {
  if (config.eos_token_ids.size() == 1) json["eos_token_id"] = config.eos_token_ids[0];
  if (config.eos_token_ids.size() > 1) json["eos_token_id"] = config.eos_token_ids;
}

void set_token_ids(const DecoderConfig& config, ordered_json& json) {
  if (config.bos_token_id >= 0) json["bos_token_id"] = config.bos_token_id;
  set_eos(config, json);
  if (config.padding_token_id >= 0) json["pad_token_id"] = config.padding_token_id;
}

std::string config_json(const DecoderConfig& config) {
  const model::RopeConfig& rope = config.ropes[0];
  ordered_json json;
  json["architectures"] = {"LlamaForCausalLM"};
  json["model_type"] = "llama";
  json["hidden_act"] = "silu";
  json["attention_bias"] = false;
  json["mlp_bias"] = false;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["num_hidden_layers"] = config.layers.size();
  json["num_attention_heads"] = config.attention_heads;
  json["num_key_value_heads"] = config.key_value_heads;
  json["head_dim"] = config.head_size;
  json["vocab_size"] = config.vocabulary_size;
  json["max_position_embeddings"] = config.context_tokens;
  json["rms_norm_eps"] = config.rms_norm_epsilon;
  json["rope_theta"] = rope.theta;
  if (rope.scaling == model::RopeScaling::kLinear) {
    json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", rope.factor}};
  }
  if (!rope.divisors.empty()) json["rope_frequency_divisors"] = rope.divisors;
  json["tie_word_embeddings"] = config.tied_head;
  set_token_ids(config, json);
  return json.dump(2) + "\n";
}

std::string generation_config_json(const DecoderConfig& config) {
  ordered_json json = ordered_json::object();
  set_token_ids(config, json);
  return json.dump(2) + "\n";
}

}  // namespace

Status build_ir_directory(const model::TensorSource& source, const DecoderConfig& config,
                          const std::filesystem::path& directory, Progress& progress) {
  const std::filesystem::path bin_path = directory / "openvino_model.bin";
  PACELINE_ASSIGN_OR_RETURN(const TensorPlan plan, plan_tensors(source, config));
  PACELINE_ASSIGN_OR_RETURN(BinFile bin, BinFile::create(bin_path));
  PACELINE_ASSIGN_OR_RETURN(StoredWeights weights, write_weights(source, plan, bin, progress));
  if (!progress.update("graph", 0, 0)) {
    return fail(ErrorCode::kCancelled, "cancelled before the graph was built");
  }
  WeightBinder binder(std::move(weights));
  PACELINE_ASSIGN_OR_RETURN(const auto graph, build_decoder(config, binder));
  PACELINE_RETURN_IF_ERROR(
      write_ir_xml(graph, binder.offsets(), bin, directory / "openvino_model.xml"));
  PACELINE_RETURN_IF_ERROR(
      system::write_file_atomically(directory / "config.json", config_json(config)));
  return system::write_file_atomically(directory / "generation_config.json",
                                       generation_config_json(config));
}

}  // namespace paceline::compiler
