#!/usr/bin/env python3
"""One stream over 1, 2 and 3 processes against openvino_genai on the whole package.

All use the same two cores with two threads each: only one works at a time. Every block asks each
of them once, with one prompt of its own, in a rotating order; ratios are taken within a block.
The random 1B configuration decides; SmolLM2 is reported beside it. With --engine stateful each chain is
there once more, with the state and the attention that openvino_genai uses.
"""

import argparse
import os
import random
import statistics
import subprocess
import time

import judgement
import models
import quiet
import servers

PROMPT_TOKENS = 512
THREADS = 2
STAGES = (1, 2, 3)
DECODE_BOUNDS = {1: 0.98, 2: 0.95, 3: 0.92}
MEMORY_BOUND = 0.6
# As profile fast sets them (src/engine/device_properties.cc); the group is the weights'.
PROPERTIES = {
    "INFERENCE_PRECISION_HINT": "bf16",
    "KV_CACHE_PRECISION": "u8",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "32",
    "KEY_CACHE_QUANT_MODE": "BY_TOKEN",
}


def idle_worker_bytes() -> int:
    """Anonymous memory of a worker that holds nothing."""
    worker = subprocess.Popen(
        [str(servers.PACELINE), "worker", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    )
    worker.stdout.readline()
    time.sleep(0.5)
    with open(f"/proc/{worker.pid}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("RssAnon:"))
    worker.terminate()
    worker.wait()
    return int(line.split()[1]) * 1024


def measure(package, arguments, vocabulary: int) -> dict[str, list[dict]]:
    """The answers of each server, one per block."""
    tokens = arguments.tokens
    peers = [servers.GenAi("genai", package, THREADS, PROPERTIES)]
    peers += [servers.Chain(f"chain{n}", package, n, THREADS, tokens) for n in STAGES]
    if arguments.engine == "stateful":
        peers += [servers.Chain(f"state{n}", package, n, THREADS, tokens, "stateful") for n in STAGES]
    generator = random.Random(7)
    answers = {peer.name: [] for peer in peers}
    noisy = 0
    for block in range(-1, arguments.blocks):  # the block -1 warms up
        ids = [generator.randrange(1000, vocabulary) for _ in range(PROMPT_TOKENS)]
        shift = block % len(peers)
        for peer in peers[shift:] + peers[:shift]:
            noisy += arguments.trial or not quiet.wait_until_quiet()
            answer = peer.ask(ids, tokens)
            if block >= 0:
                answers[peer.name].append(answer)
    for peer in peers:
        peer.close()
    if noisy:
        print(f"NOTE: {noisy} measurements began although the cores were busy")
    return answers


def rates(answers: list[dict]) -> list[float]:
    return [(answer["tokens"] - 1) / answer["decode_ms"] * 1e3 for answer in answers]


def column(answers: list[dict], key: str) -> list[float]:
    return [answer[key] for answer in answers]


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):8.1f} ({min(values):.1f}-{max(values):.1f})"


def table(title: str, answers: dict[str, list[dict]]) -> None:
    print(f"\n{title}: prompt {PROMPT_TOKENS}, one stream, {THREADS} threads each")
    print(f"{'':8} {'tokens/s (range)':>26} {'of genai [95 %]':>22} {'TTFT ms (range)':>26} {'of genai':>9}"
          f"  anonymous MiB per process")
    for name, own in answers.items():
        decode = judgement.paired_ratio(rates(own), rates(answers["genai"]))
        first = judgement.paired_ratio(column(own, "ttft_ms"), column(answers["genai"], "ttft_ms"))
        last = own[-1]
        memory = [stage["anonymous_bytes"] for stage in last.get("stages", [last])]
        print(f"{name:8} {spread(rates(own)):>26} "
              f"{decode.median:8.3f} [{decode.low:.3f}-{decode.high:.3f}] "
              f"{spread(column(own, 'ttft_ms')):>26} {first.median:9.3f}  "
              + ", ".join(f"{bytes_ / 2**20:.0f}" for bytes_ in memory))


def ratios_of(prefix: str, answers: dict[str, list[dict]]) -> dict[str, judgement.Ratio]:
    found = {}
    for name, own in answers.items():
        if name.startswith("state"):
            found[f"{prefix}.decode.{name}"] = judgement.paired_ratio(rates(own), rates(answers["genai"]))
    for n in STAGES:
        own = answers[f"chain{n}"]
        found[f"{prefix}.decode.{n}"] = judgement.paired_ratio(rates(own), rates(answers["genai"]))
        found[f"{prefix}.ttft.{n}"] = judgement.paired_ratio(
            column(own, "ttft_ms"), column(answers["genai"], "ttft_ms"))
    return found


def memory_share(answers: dict[str, list[dict]], idle_bytes: int) -> float:
    """The larger stage's memory beyond an idle worker's, of the whole model's."""
    whole = answers["chain1"][-1]["stages"][0]["anonymous_bytes"] - idle_bytes
    halves = [stage["anonymous_bytes"] - idle_bytes for stage in answers["chain2"][-1]["stages"]]
    return max(halves) / whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=judgement.MINIMUM_BLOCKS)
    parser.add_argument("--tokens", type=int, default=33, help="decoded per request")
    parser.add_argument("--engine", choices=("paged", "stateful"), default="paged",
                        help="stateful: also the chains of the stateful engine")
    parser.add_argument("--trial", action="store_true",
                        help="two blocks, without waiting for idle cores: to try the benchmark itself")
    arguments = parser.parse_args()
    if arguments.trial:
        arguments.blocks = 2
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:THREADS]))  # children inherit it

    idle_bytes = idle_worker_bytes()
    billion = measure(models.random_llama("1b", "q4_0", 128256), arguments, 128000)
    small = measure(models.smollm2(), arguments, 49152)
    table("random 1B (q4_0, group 32)", billion)
    table("SmolLM2-135M (Q4_1)", small)
    share, small_share = memory_share(billion, idle_bytes), memory_share(small, idle_bytes)
    print(f"\nlarger of two stages / whole, beyond an idle worker's {idle_bytes / 2**20:.0f} MiB: "
          f"1B {share:.3f}, SmolLM2 {small_share:.3f}")

    ratios = ratios_of("1b", billion) | ratios_of("smollm2", small)
    targets = [
        judgement.Target(f"1b.decode.{n}", ratios[f"1b.decode.{n}"].median, bound, blocks=arguments.blocks)
        for n, bound in DECODE_BOUNDS.items()
    ]
    targets.append(judgement.Target("1b.memory.2", share, MEMORY_BOUND, at_least=False))
    print(judgement.report_line("chain", ratios, targets))


if __name__ == "__main__":
    main()
