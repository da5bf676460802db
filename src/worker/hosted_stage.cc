#include "worker/hosted_stage.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "system/memory.h"
#include "wire/handshake.h"
#include "wire/int8_rows.h"

namespace paceline::worker {
namespace {

constexpr auto kLinkTimeout = std::chrono::seconds(10);

std::vector<wire::BoundarySpec> to_wire(const std::vector<engine::BoundarySpec>& specs) {
  std::vector<wire::BoundarySpec> result;
  for (const engine::BoundarySpec& spec : specs) {
    result.push_back({spec.name, spec.type, spec.row_shape});
  }
  return result;
}

wire::StageReady ready_message(const engine::StageInfo& info, Duration load_time) {
  wire::StageReady ready;
  ready.layers = info.layers;
  ready.weight_bytes = info.weight_bytes;
  ready.kv_bytes = info.kv_bytes;
  ready.load_us = to_whole_microseconds(load_time);
  ready.is_first = info.is_first;
  ready.is_last = info.is_last;
  ready.vocabulary_size = info.vocabulary_size;
  ready.form = info.form;
  ready.compile_us = to_whole_microseconds(info.compile_time);
  ready.output_boundary = to_wire(info.output_boundary);
  ready.engine = info.engine;
  ready.max_sequences = info.max_sequences;
  ready.keeps_kv_apart = !info.shares_kv;
  std::error_code no_such_file;
  ready.masks_grammars = info.is_last && std::filesystem::exists(info.tokenizer, no_such_file);
  ready.mean_width = info.final_width;
  if (const auto memory = system::process_memory()) {
    ready.resident_bytes = memory->resident_bytes;
    ready.anonymous_bytes = memory->anonymous_bytes;
  }
  return ready;
}

/// Whether what leaves and reaches a stage can travel as the assignment says.
Status check_links(const wire::AssignStage& assignment, const engine::StageInfo& info) {
  if (assignment.link_precision == LinkPrecision::kNative) return {};
  if (assignment.profile == Profile::kExact) {
    return fail(ErrorCode::kInvalidArgument, "link_precision: profile exact has native links only");
  }
  for (const auto* specs : {&info.input_boundary, &info.output_boundary}) {
    for (const engine::BoundarySpec& spec : *specs) {
      if (wire::has_int8_rows(spec.type)) continue;
      return fail(ErrorCode::kUnimplemented,
                  "link_precision: boundary tensor {} is of type {}, int8 links have f32 and bf16",
                  spec.name, to_string(spec.type));
    }
  }
  return {};
}

/// Only the first stage is told tokens, and only the sampler's stage needs more than ids.
void strip_tokens(wire::Step& step) {
  for (wire::StepSequence& sequence : step.sequences) sequence.tokens.clear();
}

}  // namespace

HostedStage::HostedStage(const wire::Address& address, wire::AssignStage assignment,
                         StageIdentity identity, std::shared_ptr<net::Connection> coordinator)
    : address_(address),
      assignment_(std::move(assignment)),
      identity_(std::move(identity)),
      coordinator_(std::move(coordinator)),
      guard_(address),
      sampling_guard_(address) {}

void HostedStage::send_to_coordinator(const wire::Address& address, wire::Message message) {
  // Where this fails the connection is going down, and with it this stage.
  if (const auto sent = coordinator_->send({address, std::move(message), {}}); !sent) {
    spdlog::warn("stage {}: cannot tell the coordinator: {}", address_.stage.value(),
                 sent.error().message());
  }
}

void HostedStage::load(const StageLoader& loader, const Clock& clock) {
  if (is_abandoned()) return;
  const TimePoint begin = clock.now();
  auto engine = loader(assignment_);
  if (engine) {
    if (auto able = check_links(assignment_, (*engine)->info()); !able) {
      engine = fail(std::move(able).error());
    }
  }
  if (!engine) {
    spdlog::warn("stage {}: {}", address_.stage.value(), engine.error().message());
    send_to_coordinator(address_, wire::Fault{engine.error().code(), engine.error().message(),
                                              wire::Kind::kAssignStage});
    return;
  }
  executor_ = std::make_unique<StageExecutor>(*std::move(engine), assignment_.link_precision);
  const engine::StageInfo& info = executor_->info();
  if (const std::uint32_t stage = address_.stage.value(); stage > 0) {
    wire::LinkStage expected = offer();
    expected.boundary = to_wire(info.input_boundary);
    expected.upstream_layers = assignment_.route[stage - 1].layers;
    expected.downstream_layers = assignment_.layers;
    const std::lock_guard lock(mutex_);
    own_link_ = std::move(expected);
  }
  wire::StageReady ready = ready_message(info, clock.now() - begin);
  ready.link_precision = assignment_.link_precision;
  spdlog::info(
      "stage {}: layers {}-{} ready in {} ms ({} in {} ms), {} MiB of weights, {} MiB of KV",
      address_.stage.value(), info.layers.begin, info.layers.end, ready.load_us / 1000, info.form,
      ready.compile_us / 1000, info.weight_bytes >> 20U, info.kv_bytes >> 20U);
  send_to_coordinator(address_, ready);
}

wire::LinkStage HostedStage::offer() const {
  wire::LinkStage offer;
  offer.package_digest = assignment_.package_digest;
  offer.upstream_layers = assignment_.layers;
  const std::size_t next = address_.stage.value() + 1;
  if (next < assignment_.route.size()) offer.downstream_layers = assignment_.route[next].layers;
  offer.profile = assignment_.profile;
  offer.engine = assignment_.engine;
  offer.link_precision = assignment_.link_precision;
  offer.isa = identity_.isa;
  offer.openvino_version = identity_.openvino_version;
  offer.logical_block_tokens = assignment_.logical_block_tokens;
  offer.boundary = to_wire(executor_->info().output_boundary);
  return offer;
}

Result<std::vector<JoinedStep>> HostedStage::take(wire::Frame frame, TimePoint now) {
  const std::lock_guard lock(mutex_);
  PACELINE_RETURN_IF_ERROR(guard_.admit(frame.address));
  if (is_last_of_route()) return joiner_.add_step(std::move(frame), now);
  std::vector<JoinedStep> whole;
  whole.push_back({std::move(frame), now});
  return whole;
}

Result<std::vector<JoinedStep>> HostedStage::take_sampling(const wire::Address& address,
                                                           wire::StepSampling sampling) {
  const std::lock_guard lock(mutex_);
  PACELINE_RETURN_IF_ERROR(sampling_guard_.admit(address));
  if (is_last_of_route()) return joiner_.add_sampling(address.step, std::move(sampling));
  return fail(ErrorCode::kFailedPrecondition, "stage {} is not the last one, which samples",
              address_.stage.value());
}

std::vector<JoinedStep> HostedStage::expire(TimePoint now) {
  const std::lock_guard lock(mutex_);
  return joiner_.expire(now);
}

Status HostedStage::compare(const wire::LinkStage& offered) const {
  if (address_.stage.value() == 0) {
    return fail(ErrorCode::kFailedPrecondition, "stage 0 has no stage before it");
  }
  const std::lock_guard lock(mutex_);
  if (!own_link_) {
    return fail(ErrorCode::kUnavailable, "stage {} is still loading", address_.stage.value());
  }
  return wire::compare_links(offered, *own_link_);
}

void HostedStage::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
}

bool HostedStage::is_abandoned() const {
  const std::lock_guard lock(mutex_);
  return abandoned_;
}

void HostedStage::run(JoinedStep joined, net::Transport& transport, const Clock& clock) {
  if (is_abandoned()) return;
  wire::Frame& frame = joined.frame;
  const wire::Address address = frame.address;
  auto& step = std::get<wire::Step>(frame.message);
  const auto fail_step = [&](const Error& error) {
    spdlog::warn("stage {}: step {}: {}", address.stage.value(), address.step.value(),
                 error.message());
    wire::StepResult result;
    result.outcome = wire::Outcome::kFailed;
    result.error_code = error.code();
    result.error_message = error.message();
    send_to_coordinator(address, std::move(result));
  };
  if (joined.failure) {
    fail_step(*joined.failure);
    return;
  }
  if (!executor_) {
    fail_step(Error(ErrorCode::kFailedPrecondition, "the stage is not loaded"));
    return;
  }
  const TimePoint begin = clock.now();
  auto product = executor_->execute(address.step, step, frame.tensors);
  if (!product) {
    fail_step(product.error());
    return;
  }
  step.stage_times.push_back({address.stage, to_whole_microseconds(begin - joined.received),
                              to_whole_microseconds(clock.now() - begin)});
  if (executor_->info().is_last) {
    wire::StepResult result;
    result.samples = std::move(product->samples);
    result.stage_times = std::move(step.stage_times);
    send_to_coordinator(address, std::move(result));
    return;
  }
  if (const auto sent = forward(std::move(frame), std::move(product->boundaries), transport);
      !sent) {
    fail_step(sent.error());
  }
}

Status HostedStage::forward(wire::Frame frame, std::vector<wire::Tensor> boundaries,
                            net::Transport& transport) {
  if (!is_linked_) PACELINE_RETURN_IF_ERROR(link_next(transport));
  strip_tokens(std::get<wire::Step>(frame.message));
  frame.address.stage = StageId(address_.stage.value() + 1);
  frame.tensors = std::move(boundaries);
  return next_ ? next_->send(std::move(frame)) : coordinator_->send(std::move(frame));
}

Status HostedStage::link_next(net::Transport& transport) {
  const std::size_t next = address_.stage.value() + 1;
  if (next >= assignment_.route.size()) {
    return fail(ErrorCode::kFailedPrecondition,
                "layers {}-{} are the route's end, but not the model's", assignment_.layers.begin,
                assignment_.layers.end);
  }
  LinkTarget target;
  target.peer_address = assignment_.route[next].address;
  target.address = address_;
  target.address.stage = StageId(static_cast<std::uint32_t>(next));
  target.offer = offer();
  if (target.peer_address.empty()) {
    // The coordinator passes on what follows; where the stage there refuses, it hears so.
    PACELINE_RETURN_IF_ERROR(coordinator_->send({target.address, std::move(target.offer), {}}));
    is_linked_ = true;
    return {};
  }
  auto on_lost = [coordinator = coordinator_, address = address_,
                  peer = target.peer_address](const Error& reason) {
    const auto named = reason.with_context(
        fmt::format("the link to stage {} at {} is lost", address.stage.value() + 1, peer));
    // A coordinator that is gone, too, needs no message.
    (void)coordinator->send(
        {address, wire::Fault{ErrorCode::kUnavailable, named.message(), wire::Kind::kStep}, {}});
  };
  PACELINE_ASSIGN_OR_RETURN(
      next_, DownstreamLink::connect(transport, target, identity_, std::move(on_lost),
                                     Deadline::after(kLinkTimeout)));
  is_linked_ = true;
  return {};
}

}  // namespace paceline::worker
