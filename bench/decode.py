#!/usr/bin/env python3
"""One stream, one and two threads: int4 in groups of 128 against llama.cpp's Q4_0 of the same configuration.

Random weights in a 1B configuration; head and embedding in int8 here and in Q6_K there, as published files have
them. Profile fast, one process. Each block asks each of them once with a prompt of its own, in a rotating order;
beside their rates stands what both read of their weights per second, and how fast the cores can read at all.
"""

import argparse
import os
import random
import statistics
import subprocess

import judgement
import llama_library
import models
import quiet
import servers

VOCABULARY = 128_256
PROMPT_TOKENS = 16
CORES = sorted(os.sched_getaffinity(0))[:2]
BOUNDS = {2: 0.8, 1: 0.7}


def pinned(threads: int, command: list[str]) -> list[str]:
    return ["taskset", "-c", ",".join(map(str, CORES[:threads])), *command]


def read_bandwidth(threads: int) -> float:
    """GB/s."""
    program = servers.ROOT / "build" / "release" / "read_bandwidth"
    return float(subprocess.run(pinned(threads, [str(program), str(threads)]),
                                check=True, capture_output=True, text=True).stdout)  # fmt: skip


def rate(answer: dict, tokens: int) -> float:
    return (tokens - 1) / answer["decode_ms"] * 1e3


def measure(arguments, package, gguf) -> dict[str, list[float]]:
    library = llama_library.library()
    peers = []
    for threads in BOUNDS:
        peers.append(servers.Chain(f"paceline.{threads}", package, 1, threads, arguments.tokens,
                                   prefix=pinned(threads, [])))  # fmt: skip
        peers.append(servers.Llama(f"llama.cpp.{threads}", library, gguf, threads, pinned(threads, [])))
    generator = random.Random(5)
    rates = {peer.name: [] for peer in peers} | {f"read.{threads}": [] for threads in BOUNDS}
    noisy = 0
    for block in range(-1, arguments.blocks):  # the block -1 warms up
        ids = [generator.randrange(1000, 40_000) for _ in range(PROMPT_TOKENS)]
        shift = block % len(peers)
        for peer in peers[shift:] + peers[:shift]:
            noisy += not arguments.trial and not quiet.wait_until_quiet()
            answer = peer.ask(ids, arguments.tokens)
            if block >= 0:
                rates[peer.name].append(rate(answer, arguments.tokens))
        for threads in BOUNDS if block >= 0 else ():
            rates[f"read.{threads}"].append(read_bandwidth(threads))
    for peer in peers:
        peer.close()
    if noisy:
        print(f"NOTE: {noisy} measurements began although the cores were busy")
    return rates


def table(rates: dict[str, list[float]], sizes: dict[str, int]) -> None:
    print(f"\n{'':14} {'tokens/s (range)':>24} {'GB/s of weights':>16} {'of the read bandwidth':>22}")
    for name, own in rates.items():
        kind, threads = name.rsplit(".", 1)
        if kind == "read":
            continue
        median = statistics.median(own)
        reading = median * sizes[kind] / 1e9
        spread = f"{median:.1f} ({min(own):.1f}-{max(own):.1f})"
        print(f"{name:14} {spread:>24} {reading:16.1f} {reading / statistics.median(rates['read.' + threads]):22.2f}")
    for threads in BOUNDS:
        print(f"read bandwidth, {threads} threads: {statistics.median(rates[f'read.{threads}']):.1f} GB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=judgement.MINIMUM_BLOCKS)
    parser.add_argument("--tokens", type=int, default=33, help="decoded per request")
    parser.add_argument("--trial", action="store_true",
                        help="two blocks, without waiting for idle cores: to try the benchmark itself")
    arguments = parser.parse_args()
    if arguments.trial:
        arguments.blocks = 2
    package = models.random_llama_int4("1b", VOCABULARY)
    gguf = models.random_llama_gguf("1b", "q4_0", VOCABULARY)
    rates = measure(arguments, package, gguf)
    table(rates, {"paceline": (package / "openvino_model.bin").stat().st_size, "llama.cpp": gguf.stat().st_size})
    ratios, targets = {}, []
    for threads, bound in BOUNDS.items():
        ratio = judgement.paired_ratio(rates[f"paceline.{threads}"], rates[f"llama.cpp.{threads}"])
        ratios[f"threads.{threads}"] = ratio
        print(f"{threads} threads, of llama.cpp: {ratio.median:.3f} [{ratio.low:.3f}-{ratio.high:.3f}], target {bound}")
        targets.append(judgement.Target(f"threads.{threads}", ratio.median, bound, blocks=ratio.blocks))
    print(judgement.report_line("decode", ratios, targets))


if __name__ == "__main__":
    main()
