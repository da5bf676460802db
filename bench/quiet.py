"""Whether the cores are idle: timings of inference on busy cores mean nothing."""

import os
import time

_TICKS = os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """CPU seconds that all processes of the machine have used so far, interrupts included."""
    with open("/proc/stat", encoding="ascii") as stat:
        fields = [int(field) for field in stat.readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / _TICKS


def wait_until_quiet(threshold_cores: float = 0.2, window_s: float = 0.5, limit_s: float = 120.0) -> bool:
    """Waits until fewer than `threshold_cores` are busy for a window. False where `limit_s` ended."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        before, begin = busy_seconds(), time.monotonic()
        time.sleep(window_s)
        if (busy_seconds() - before) / (time.monotonic() - begin) < threshold_cores:
            return True
    return False
