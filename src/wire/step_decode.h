// Protobuf -> structs, of the messages about steps. Internal to src/wire.
#pragma once

#include "base/error.h"
#include "wire/limits.h"
#include "wire/messages.h"
#include "wire/proto_include.h"

namespace paceline::wire {

/// As decode_header() (header_codec.h): checks what is lost in the structs.
Result<Message> decode_step(const proto::Step& in, const Limits& limits);
Result<Message> decode_step_sampling(const proto::StepSampling& in, const Limits& limits);
Result<Message> decode_step_result(const proto::StepResult& in);

}  // namespace paceline::wire
