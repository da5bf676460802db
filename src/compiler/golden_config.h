#pragma once
#include <string>
#include "model/decoder_config.h"
namespace paceline::compiler {
model::DecoderConfig golden_config(const std::string& name);
}
