#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace paceline::cli {
namespace {

std::atomic<bool> interrupted = false;

extern "C" void on_signal(int number) {
  if (interrupted.exchange(true)) ::_exit(128 + number);
}

}  // namespace

std::atomic<bool>& interrupt_flag() {
  static const bool is_installed = [] {
    struct sigaction action = {};
    action.sa_handler = on_signal;  // without SA_RESTART: a blocked read of a line ends
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    return true;
  }();
  (void)is_installed;
  return interrupted;
}

void wait_for_interrupt() {
  const std::atomic<bool>& flag = interrupt_flag();
  while (!flag.load()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

}  // namespace paceline::cli
