"""A chain under a load of many requests, a share of them cancelled at random: it must go on, and leave
nothing behind.

scripts/bench soak [SECONDS]: 64 requests at once over 2 stages, 600 s unless said otherwise. Checks that no
request is refused, all KV blocks are free at the end, and the memory of the stages is flat over the second
half; a table, then one JSON line with `holds`.
"""

import json
import subprocess
import sys

from models import PACELINE, smollm2

kConcurrency = 64
kStages = 2
kCancelRate = 0.3
kKvMemory = "128MB"
kMostGrowth = 1.02  # of memory: the last sixth of the time against the one after half of it


def mean(samples: list[list[float]], begin: float, end: float) -> float:
    chosen = [bytes_ for seconds, bytes_ in samples if begin <= seconds <= end]
    return sum(chosen) / len(chosen)


def growth(samples: list[list[float]]) -> float:
    """How memory changed over the second half; NaN where there are too few samples."""
    if len(samples) < 12:
        return float("nan")
    end = samples[-1][0]
    return mean(samples, end * 5 / 6, end) / mean(samples, end / 2, end * 2 / 3)


def judge(result: dict) -> dict:
    return {
        "goes_on": result["done"] > kConcurrency and result["refused"] == 0,
        "cancels": result["cancelled"] > 0,
        "all_blocks_free": result["free_kv_blocks"] == result["kv_blocks"],
        "memory_is_flat": growth(result["resident_bytes"]) <= kMostGrowth,
    }


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    outcome = subprocess.run(
        [
            str(PACELINE), "bench", "-p", str(smollm2()), "--stages", str(kStages),
            "--duration", str(seconds), "--concurrency", str(kConcurrency),
            "--cancel-rate", str(kCancelRate), "--prompt-tokens", "16:256",
            "--output-tokens", "8:96", "--shared-prefix", "8", "--seed", "1", "--json",
            # Soon full: memory of KV that was never written would be counted as growth.
            "--kv-memory", kKvMemory,
        ],
        check=True, stdout=subprocess.PIPE, timeout=seconds + 600,
    )  # fmt: skip
    result = json.loads(outcome.stdout)
    print(result["title"])
    for name in ("seconds", "done", "cancelled", "refused", "output_tokens_per_second", "preemptions",
                 "free_kv_blocks", "kv_blocks", "resident_bytes_before", "resident_bytes_after"):  # fmt: skip
        print(f"{name:<26} {result[name]}")
    holds = judge(result)
    print(json.dumps({"name": "soak", "growth": growth(result["resident_bytes"]), "holds": holds}))
    sys.exit(0 if all(holds.values()) else 1)


if __name__ == "__main__":
    main()
