#include "compiler/ir_directory.h"

#include <string>
#include <utility>

#include "compiler/bin_file.h"
#include "compiler/builder.h"
#include "compiler/config_json.h"
#include "compiler/ir_xml.h"
#include "compiler/tensor_plan.h"
#include "compiler/weight_binder.h"
#include "compiler/weight_writer.h"
#include "system/files.h"

namespace paceline::compiler {

using model::DecoderConfig;

Result<StoredWeights> build_ir_directory(const model::TensorSource& source,
                                         const DecoderConfig& config,
                                         const std::filesystem::path& directory, Progress& progress,
                                         const WriteOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const TensorPlan plan, plan_tensors(source, config));
  const std::filesystem::path bin_path = directory / "openvino_model.bin";
  PACELINE_ASSIGN_OR_RETURN(
      BinFile bin, options.journal.empty() ? BinFile::create(bin_path) : BinFile::open(bin_path));
  WriteOptions complete = options;
  complete.fp8_block_rows = config.fp8_block_rows;
  complete.fp8_block_columns = config.fp8_block_columns;
  PACELINE_ASSIGN_OR_RETURN(StoredWeights weights,
                            write_weights(source, plan, bin, progress, complete));
  if (!progress.update("graph", 0, 0)) {
    return fail(ErrorCode::kCancelled, "cancelled before the graph was built");
  }
  WeightBinder binder(weights);
  PACELINE_ASSIGN_OR_RETURN(const auto graph, build_decoder(config, binder));
  PACELINE_RETURN_IF_ERROR(
      write_ir_xml(graph, binder.offsets(), bin, directory / "openvino_model.xml"));
  const auto write_unless_there = [&](const char* name, const std::string& text) -> Status {
    if (std::filesystem::exists(directory / name)) return {};
    return system::write_file_atomically(directory / name, text);
  };
  PACELINE_RETURN_IF_ERROR(write_unless_there("config.json", config_json(config)));
  PACELINE_RETURN_IF_ERROR(
      write_unless_there("generation_config.json", generation_config_json(config)));
  return weights;
}

}  // namespace paceline::compiler
