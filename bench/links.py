#!/usr/bin/env python3
"""What links in int8 cost in text quality, and what they give where a link is slow.

quality   SmolLM2 over 2, 3 and 5 processes scores a fixed text (quality_text.txt), in windows without overlap: its
          perplexity, likeliest tokens and divergence with links in int8, against the same chain with native ones
prefill   prompts of 512 tokens over a link of 2 Mbit/s (`paceline relay`) between two processes of one core each
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import judgement
import load_servers
import models
from servers import PACELINE

TEXT = pathlib.Path(__file__).with_name("quality_text.txt")
WINDOW = 512
STAGES = (2, 3, 5)
LIKELIEST = 20
CHUNKS = ("--step-tokens", "128")  # always the same, so that a run gives what the one before gave
INT8 = ("--link-precision", "int8")
MBIT = 2
CORES = sorted(os.sched_getaffinity(0))[:2]


@dataclasses.dataclass
class Scores:
    """Of the tokens of a window, by one chain."""

    own: list[float]  # log-probabilities of the text's tokens
    likeliest: list[dict[int, float]]  # of each position, tokens with theirs

    @classmethod
    def of(cls, answer: dict) -> "Scores":
        likeliest = [{entry["token"]: entry["logprob"] for entry in row} for row in answer["prompt_top_logprobs"]]
        return cls(answer["prompt_logprobs"], likeliest)

    @property
    def perplexity(self) -> float:
        return math.exp(-sum(self.own) / len(self.own))


def divergence(reference: dict[int, float], other: dict[int, float]) -> float:
    """KL in nats over the tokens that both have, and all others as one."""
    shared = sorted(reference.keys() & other.keys())
    pairs = [(math.exp(reference[token]), math.exp(other[token])) for token in shared]
    pairs.append((1 - sum(p for p, _ in pairs), 1 - sum(q for _, q in pairs)))
    return sum(p * math.log(p / q) for p, q in pairs if p > 1e-12 and q > 1e-12)


def best(likeliest: dict[int, float]) -> int:
    return max(likeliest, key=lambda token: (likeliest[token], -token))


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Of scores with those of a reference, over all windows."""

    perplexity: float
    perplexity_ratio: float
    top1: float
    divergence: float
    windows: judgement.Ratio  # of perplexities


def compare(scores: list[Scores], reference: list[Scores]) -> Comparison:
    own = [value for window in scores for value in window.own]
    native = [value for window in reference for value in window.own]
    rows = [pair for window, other in zip(scores, reference) for pair in zip(window.likeliest, other.likeliest)]
    perplexity = math.exp(-sum(own) / len(own))
    return Comparison(
        perplexity=perplexity,
        perplexity_ratio=perplexity / math.exp(-sum(native) / len(native)),
        top1=sum(best(a) == best(b) for a, b in rows) / len(rows),
        divergence=sum(divergence(b, a) for a, b in rows) / len(rows),
        windows=judgement.paired_ratio([w.perplexity for w in scores], [w.perplexity for w in reference]),
    )


def generate(package: pathlib.Path, arguments: list[str], text: bytes | None = None) -> list[dict]:
    command = [str(PACELINE), "generate", "-p", str(package), "-n", "1", "--json", "--speculation", "off",
               "--threads", "2", "--quiet", *arguments]  # fmt: skip
    process = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}\n{process.stderr.decode()}")
    return [json.loads(line) for line in process.stdout.splitlines()]


def windows_of(package: pathlib.Path, count: int) -> list[list[int]]:
    ids = generate(package, ["--ctx", "8192"], TEXT.read_bytes())[0]["prompt_ids"]
    return [ids[begin : begin + WINDOW] for begin in range(0, count * WINDOW, WINDOW)]


def score(package: pathlib.Path, windows: list[list[int]], stages: int, flags: tuple[str, ...]) -> list[Scores]:
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
        prompts.write("".join(json.dumps(window) + "\n" for window in windows))
        prompts.flush()
        answers = generate(package, ["--prompts", prompts.name, "--stages", str(stages), "--prompt-logprobs",
                                     "--logprobs", str(LIKELIEST), "--ctx", "1024", *flags])  # fmt: skip
    return [Scores.of(answer) for answer in answers]


Found = tuple[dict[str, judgement.Ratio], list[judgement.Target]]


def quality(arguments) -> Found:
    package = models.smollm2()
    windows = windows_of(package, 1 if arguments.trial else 10)
    print(f"\nSmolLM2-135M, {len(windows)} windows of {WINDOW} tokens, against the native chain")
    print(f"{'stages, links':11} {'perplexity':>11} {'change %':>9} {'per window: median [95 %]':>27} {'top-1':>7} "
          f"{'KL':>9}")
    ratios, targets = {}, []
    for stages in STAGES:
        native = score(package, windows, stages, CHUNKS)
        rows = {"native": native, "int8": score(package, windows, stages, CHUNKS + INT8)}
        for name, scores in rows.items():
            found = compare(scores, native)
            print(f"{stages}, {name:8} {found.perplexity:11.4f} {100 * found.perplexity_ratio - 100:9.3f} "
                  f"{found.windows.median:12.4f} [{found.windows.low:.4f}-{found.windows.high:.4f}] "
                  f"{found.top1:7.4f} {found.divergence:9.2e}", flush=True)
            ratios[f"{stages}.{name}.perplexity"] = found.windows
        targets.append(judgement.Target.exact(f"quality.{stages}.perplexity_ratio", found.perplexity_ratio, 1.01,
                                              at_least=False))  # fmt: skip
    return ratios, targets


def prefill(arguments) -> Found:
    package = models.smollm2()
    prompts = load_servers.Prompts(49152)
    links = {"native": (), "int8": INT8}
    chains = {
        name: load_servers.Chain(f"{name} links", package, CORES, delay_ms=0, mbit=MBIT,
                                 flags=load_servers.PLAIN + flags)
        for name, flags in links.items()
    }  # fmt: skip

    def cells() -> load_servers.Cells:
        return {name: lambda chain=chain: chain.ask(prompts.take(1, WINDOW), 2) for name, chain in chains.items()}

    answers = load_servers.interleaved(cells, arguments.blocks, arguments.trial)
    for chain in chains.values():
        chain.close()
    print(f"\nSmolLM2-135M, one prompt of {WINDOW} tokens, two processes of one core, {MBIT} Mbit/s between them")
    for name, own in answers.items():
        print(f"{name:8} TTFT {load_servers.spread(own, 'ttft_ms'):>24} ms")
    ratio = judgement.paired_ratio(*(load_servers.column(answers[name], "ttft_ms") for name in ("int8", "native")))
    return {"prefill.ttft": ratio}, [
        judgement.Target("prefill.ttft.int8_of_native", ratio.median, 0.75, at_least=False, blocks=ratio.blocks)]


PARTS = {"quality": quality, "prefill": prefill}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=judgement.MINIMUM_BLOCKS)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--trial", action="store_true",
                        help="one window and two blocks, without waiting for idle cores: to try the benchmark itself")
    arguments = parser.parse_args()
    if arguments.trial:
        arguments.blocks = 2
    ratios, targets = {}, []
    for part in arguments.only or PARTS:
        found, part_targets = PARTS[part](arguments)
        ratios |= found
        targets += part_targets
    print(judgement.report_line("links", ratios, targets))


if __name__ == "__main__":
    main()
