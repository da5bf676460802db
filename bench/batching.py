#!/usr/bin/env python3
"""1 to 32 requests at once over 1, 2 and 3 processes against openvino_genai's continuous batching.

All use the same two cores and the same properties; SmolLM2, 128 tokens in, 64 out, all requests come at once.
openvino_genai and the chain of one process have two threads. Stages of more processes work at the same time, so
each has one thread, and the layers are divided by the times that 16 requests take. Every block asks each of them
with the same new prompts, in a rotating order; ratios are of output tokens per second, prompts' time included.
"""

import argparse
import os

import judgement
import load_servers
import models

PROMPT_TOKENS = 128
TOKENS, TRIAL_TOKENS = 64, 16
CONCURRENCY = (1, 4, 8, 16, 32)
STAGES = (1, 2, 3)
THREADS = {1: 2, 2: 1, 3: 1}
BOUNDS = {(2, 16): 1.0}
VOCABULARY = 49152


def cores(stages: int) -> list[None]:
    return [None] * stages  # the system's choice, of the two


def measure(package, tokens: int, arguments) -> dict[str, list[dict]]:
    prompts = load_servers.Prompts(VOCABULARY)
    peers = [load_servers.GenAi("genai", package, None, 2)]
    for stages in arguments.only or STAGES:
        split = load_servers.probed_split(
            package, cores(stages), THREADS[stages], prompts.take(16, PROMPT_TOKENS), tokens)
        peers.append(load_servers.Chain(f"chain{stages}", package, cores(stages), THREADS[stages], split))

    def cells() -> load_servers.Cells:
        found = {}
        for n in CONCURRENCY:
            load = prompts.take(n, PROMPT_TOKENS)
            for peer in peers:
                found[f"{peer.name}.{n}"] = lambda peer=peer, load=load: peer.ask(load, tokens)
        return found

    answers = load_servers.interleaved(cells, arguments.blocks, arguments.trial)
    for peer in peers:
        peer.close()
    return answers


def ratios_of(answers: dict[str, list[dict]]) -> dict[str, judgement.Ratio]:
    return {
        name: judgement.paired_ratio(
            load_servers.column(own, "rate"),
            load_servers.column(answers[f"genai.{name.split('.')[1]}"], "rate"))
        for name, own in answers.items() if not name.startswith("genai")
    }  # fmt: skip


def table(tokens: int, answers: dict[str, list[dict]], ratios: dict[str, judgement.Ratio]) -> None:
    print(f"\nSmolLM2, {PROMPT_TOKENS} in, {tokens} out, on {len(os.sched_getaffinity(0))} cores")
    print(f"{'':12} {'tokens/s (range)':>26} {'of genai [95 %]':>22} {'steady tokens/s':>26} {'TTFT ms':>9}"
          "  resident MiB, rows of a step, use of stages")
    for name, own in answers.items():
        ratio = ratios.get(name)
        shown = f"{ratio.median:.3f} [{ratio.low:.3f}-{ratio.high:.3f}]" if ratio else ""
        use = ", ".join(f"{share:.2f}" for share in own[-1].get("use", []))
        print(f"{name:12} {load_servers.spread(own, 'rate'):>26} {shown:>22} "
              f"{load_servers.spread(own, 'steady'):>26} {load_servers.median(own, 'ttft_ms'):9.0f}  "
              f"{load_servers.mebibytes(own[-1]['resident'])}  {own[-1].get('step_tokens', '')}  {use}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=judgement.MINIMUM_BLOCKS)
    parser.add_argument("--only", type=int, choices=STAGES, action="append", help="chains of so many processes")
    parser.add_argument("--trial", action="store_true",
                        help="two short blocks, without waiting for idle cores: to try the benchmark itself")
    arguments = parser.parse_args()
    if arguments.trial:
        arguments.blocks = 2
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:2]))  # children inherit it
    tokens = TRIAL_TOKENS if arguments.trial else TOKENS
    answers = measure(models.smollm2(), tokens, arguments)
    ratios = ratios_of(answers)
    table(tokens, answers, ratios)
    targets = [
        judgement.Target(f"chain{stages}.{n}", ratios[f"chain{stages}.{n}"].median, bound, blocks=arguments.blocks)
        for (stages, n), bound in BOUNDS.items() if f"chain{stages}.{n}" in ratios
    ]
    print(judgement.report_line("batching", ratios, targets))


if __name__ == "__main__":
    main()
