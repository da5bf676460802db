#!/usr/bin/env python3
"""Two PCs of one core each against openvino_genai with the whole model on one of them.

A PC is a core: each stage is a worker pinned to its own with one thread, the coordinator shares the first one's,
openvino_genai and the one-process chain have one core and one thread. The layers are divided by the times that the
load at hand takes (layer_split.py). SmolLM2, the same properties, one run; parts:

streams    one stream, and two over the two against one on one
batches    8, 16 and 32 streams on both sides, against the bound T(N) / T(N/2) that batching leaves, T being the time
           of a step of the one-process chain; and memory against streams
prefill    8 requests at once, 512 in, 16 out; and a mixed load, shown without a target
"""

import argparse
import os

import judgement
import load_servers
import models

CORES = sorted(os.sched_getaffinity(0))[:2]
VOCABULARY = 49152
DECODE_IN, DECODE_OUT, TRIAL_OUT = 16, 64, 24  # tokens: nearly all is decode
BATCHES = (8, 16, 32)
BATCH_BOUND = 0.95
PREFILL = (8, 512, 16)
PREFILL_BOUND = 1.8
ONE_BOUND, TWO_BOUND = 0.95, 1.9

Ratios = dict[str, judgement.Ratio]


class Bench:
    """The processes of one part, and its loads."""

    def __init__(self, arguments):
        self.package = models.smollm2()
        self.arguments = arguments
        self.out = TRIAL_OUT if arguments.trial else DECODE_OUT
        self.prompts = load_servers.Prompts(VOCABULARY)
        self.genai = load_servers.GenAi("genai", self.package, CORES[0])
        self.chains: dict[tuple[int, ...], load_servers.Chain] = {}

    def chain(self, load: list, tokens: int) -> load_servers.Chain:
        """Two PCs, the layers divided for this load."""
        split = load_servers.probed_split(self.package, CORES, 1, load, tokens)
        if tuple(split) not in self.chains:
            name = "chain " + "+".join(map(str, split))
            self.chains[tuple(split)] = load_servers.Chain(name, self.package, CORES, 1, split)
        return self.chains[tuple(split)]

    def one(self) -> load_servers.Chain:
        """The own engine on one PC."""
        if () not in self.chains:
            self.chains[()] = load_servers.Chain("one process", self.package, CORES[:1], 1)
        return self.chains[()]

    def run(self, cells) -> dict[str, list[dict]]:
        return load_servers.interleaved(cells, self.arguments.blocks, self.arguments.trial)

    def close(self) -> None:
        for server in [self.genai, *self.chains.values()]:
            server.close()


def ratio(own: list[dict], peer: list[dict], key: str) -> judgement.Ratio:
    return judgement.paired_ratio(load_servers.column(own, key), load_servers.column(peer, key))


def table(title: str, answers: dict[str, list[dict]]) -> None:
    print(f"\n{title}")
    print(f"{'':20} {'tokens/s (range)':>26} {'in decode (range)':>26} {'TTFT ms':>9}  layers, groups, rows of a step, use, resident MiB")
    for name, own in answers.items():
        last = own[-1]
        use = ", ".join(f"{share:.2f}" for share in last.get("use", []))
        print(f"{name:20} {load_servers.spread(own, 'rate'):>26} {load_servers.spread(own, 'steady'):>26} "
              f"{load_servers.median(own, 'ttft_ms'):9.0f}  {'+'.join(map(str, last.get('layers', [])))}  "
              f"{last.get('groups', '')}  {last.get('step_tokens', '')}  {use}  {load_servers.mebibytes(last['resident'])}")


def show(name: str, found: judgement.Ratio) -> None:
    print(f"{name:44} {found.median:.3f} [{found.low:.3f}-{found.high:.3f}]")


def streams(bench: Bench) -> tuple[Ratios, dict[str, float]]:
    chain = bench.chain(bench.prompts.take(2, DECODE_IN), bench.out)

    def cells() -> load_servers.Cells:
        one, two = bench.prompts.take(1, DECODE_IN), bench.prompts.take(2, DECODE_IN)
        return {"genai.1": lambda: bench.genai.ask(one, bench.out),
                "two.1": lambda: chain.ask(one, bench.out),
                "two.2": lambda: chain.ask(two, bench.out)}  # fmt: skip

    answers = bench.run(cells)
    table("one stream and two", answers)
    ratios = {f"streams.{n}": ratio(answers[f"two.{n}"], answers["genai.1"], "steady") for n in (1, 2)}
    return ratios, {"streams.1": ONE_BOUND, "streams.2": TWO_BOUND}


def of_bound(answers: dict[str, list[dict]], n: int) -> tuple[judgement.Ratio, judgement.Ratio]:
    """The bound T(n) / T(n/2) of each block, and how much of it the chain reached over genai."""
    half = [2 * rate for rate in load_servers.column(answers[f"one.{n // 2}"], "steady")]
    bounds = [twice / rate for twice, rate in zip(half, load_servers.column(answers[f"one.{n}"], "steady"))]
    reached = [own / peer for own, peer in zip(load_servers.column(answers[f"two.{n}"], "steady"),
                                               load_servers.column(answers[f"genai.{n}"], "steady"))]  # fmt: skip
    return judgement.paired_ratio(bounds, [1.0] * len(bounds)), judgement.paired_ratio(reached, bounds)


def batches(bench: Bench) -> tuple[Ratios, dict[str, float]]:
    chains = {n: bench.chain(bench.prompts.take(n, DECODE_IN), bench.out) for n in BATCHES}

    def cells() -> load_servers.Cells:
        found = {}
        for n in (BATCHES[0] // 2, *BATCHES):
            load = bench.prompts.take(n, DECODE_IN)
            found[f"one.{n}"] = lambda load=load: bench.one().ask(load, bench.out)
            if n in BATCHES:
                found[f"genai.{n}"] = lambda load=load: bench.genai.ask(load, bench.out)
                found[f"two.{n}"] = lambda load=load, chain=chains[n]: chain.ask(load, bench.out)
        return found

    answers = bench.run(cells)
    table("many streams", answers)
    ratios = {}
    for n in BATCHES:
        ratios[f"batches.{n}"] = ratio(answers[f"two.{n}"], answers[f"genai.{n}"], "steady")
        bound, ratios[f"batches.{n}.of_bound"] = of_bound(answers, n)
        step = n * 1e3 / load_servers.median(answers[f"one.{n}"], "steady")
        print(f"{n} streams: T({n}) {step:.1f} ms, bound {bound.median:.3f}")
    return ratios, {f"batches.{n}.of_bound": BATCH_BOUND for n in BATCHES}


def prefill(bench: Bench) -> tuple[Ratios, dict[str, float]]:
    count, tokens_in, tokens_out = PREFILL

    def mixed() -> list[list[int]]:
        return bench.prompts.take(4, 512) + bench.prompts.take(12, 32)

    heavy_chain = bench.chain(bench.prompts.take(count, tokens_in), tokens_out)
    mixed_chain = bench.chain(mixed(), bench.out)

    def cells() -> load_servers.Cells:
        heavy, both = bench.prompts.take(count, tokens_in), mixed()
        return {"genai.prefill": lambda: bench.genai.ask(heavy, tokens_out),
                "two.prefill": lambda: heavy_chain.ask(heavy, tokens_out),
                "genai.mixed": lambda: bench.genai.ask(both, bench.out),
                "two.mixed": lambda: mixed_chain.ask(both, bench.out)}  # fmt: skip

    answers = bench.run(cells)
    table(f"{count} at once, {tokens_in} in, {tokens_out} out; mixed: 4 of 512 in and 12 of 32 in, {bench.out} out", answers)
    return {name: ratio(answers[f"two.{name}"], answers[f"genai.{name}"], "rate")
            for name in ("prefill", "mixed")}, {"prefill": PREFILL_BOUND}  # fmt: skip


PARTS = {"streams": streams, "batches": batches, "prefill": prefill}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=judgement.MINIMUM_BLOCKS)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--trial", action="store_true",
                        help="two short blocks, without waiting for idle cores: to try the benchmark itself")
    arguments = parser.parse_args()
    if arguments.trial:
        arguments.blocks = 2
    ratios, bounds = {}, {}
    for part in arguments.only or PARTS:
        bench = Bench(arguments)
        found, part_bounds = PARTS[part](bench)
        bench.close()
        for name, one in found.items():
            show(f"{name}, of genai" if not name.endswith("of_bound") else name, one)
        ratios |= found
        bounds |= part_bounds
    targets = [judgement.Target(name, ratios[name].median, bound, blocks=arguments.blocks)
               for name, bound in bounds.items()]  # fmt: skip
    print(judgement.report_line("two_pcs", ratios, targets))


if __name__ == "__main__":
    main()
