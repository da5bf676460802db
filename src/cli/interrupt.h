// Ctrl-C and SIGTERM as flags that loops look at.
#pragma once

#include <atomic>

namespace paceline::cli {

/// From now on SIGINT and SIGTERM set the flag instead of ending the process; a second signal
/// before the flag is cleared ends it. Call before other threads start.
std::atomic<bool>& interrupt_flag();

/// Blocks until SIGINT or SIGTERM.
void wait_for_interrupt();

}  // namespace paceline::cli
