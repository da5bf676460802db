// paceline relay: a slow or faulty link between two workers, for trying out and for tests.
#include "net/relay.h"

#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "coordinator/local_workers.h"

namespace paceline::cli {
namespace {

struct RelayFlags {
  std::string listen = "127.0.0.1:0";
  std::string target;
  std::uint32_t delay_ms = 0;
  std::uint64_t megabits_per_second = 0;
  std::uint64_t cut_after_bytes = 0;
  std::uint64_t stall_after_bytes = 0;
  std::uint64_t flip_at_byte = 0;
};

net::RelayDirection direction(const RelayFlags& flags) {
  net::RelayDirection direction;
  direction.delay = std::chrono::milliseconds(flags.delay_ms);
  direction.bytes_per_second = flags.megabits_per_second * 1000 * 1000 / 8;
  if (flags.cut_after_bytes > 0) direction.cut_after = flags.cut_after_bytes;
  if (flags.stall_after_bytes > 0) direction.stall_after = flags.stall_after_bytes;
  if (flags.flip_at_byte > 0) direction.flip_at = flags.flip_at_byte;
  return direction;
}

Status relay(const RelayFlags& flags) {
  interrupt_flag();
  net::RelayOptions options;
  PACELINE_ASSIGN_OR_RETURN(options.listen, net::parse_endpoint(flags.listen));
  PACELINE_ASSIGN_OR_RETURN(options.target, net::parse_endpoint(flags.target));
  if (!net::is_loopback(options.listen)) {
    return fail(ErrorCode::kPermissionDenied, "--listen {}: a relay listens on loopback only",
                flags.listen);
  }
  options.forward = direction(flags);
  options.backward.delay = options.forward.delay;
  options.backward.bytes_per_second = options.forward.bytes_per_second;
  net::NetworkThread thread;
  PACELINE_ASSIGN_OR_RETURN(const auto relay, net::Relay::start(thread, options));
  fmt::print("{}{}\n", coordinator::kListeningPrefix, relay->endpoint().to_string());
  std::fflush(stdout);
  wait_for_interrupt();
  return {};
}

}  // namespace

void add_relay_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<RelayFlags>();
  CLI::App* command = app.add_subcommand(
      "relay", "Pass a worker's connections on with delay, limits and faults (for tests)");
  command->add_option("--listen", flags->listen, "Loopback address")->capture_default_str();
  command->add_option("--to", flags->target, "The worker's address")->required();
  command->add_option("--delay-ms", flags->delay_ms, "Delay of each direction");
  command->add_option("--mbit", flags->megabits_per_second, "Rate of each direction; 0: no limit");
  command->add_option("--cut-after", flags->cut_after_bytes,
                      "Close a connection after this many bytes towards the worker");
  command->add_option("--stall-after", flags->stall_after_bytes,
                      "Pass nothing after this many bytes towards the worker");
  command->add_option("--flip-at", flags->flip_at_byte,
                      "Invert the byte at this offset (not 0) towards the worker");
  command->callback([flags, &done] { done = relay(*flags); });
}

}  // namespace paceline::cli
