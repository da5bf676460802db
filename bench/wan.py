#!/usr/bin/env python3
"""Two machines of one core each with a slow link between them: one way takes 0, 10, 50 or 100 ms.

The coordinator and stage 0 are on the first core; `paceline relay` delays all that goes to and from stage 1, so a
token takes one round trip and what the stages compute. Layers are divided by measured times. Parts:

delays       one stream, plain, at each delay; beside it what round trip and compute leave
speculation  one stream at 50 ms with and without drafts: text with much repetition, and free text. With the model as its
             own draft free text, greedy (the target: it shows the mechanism) and drawn at temperature 1. Drafting is
             counted when layers are divided, so that the first machine has few of them
streams      SmolLM2, many streams at 50 ms: of min(its own 0 ms rate, N / (round trip + a step's compute))
billion      random weights in a 1B configuration: 64 streams of their 0 ms rate, 32 of the best number of groups
             G: max N / max(G T(N/G) / 2, T(N/G) + round trip), T being a step of one process on one core
"""

import argparse
import dataclasses
import os

import judgement
import layer_split
import llama_library
import load_servers
import models
import wan_texts

CORES = sorted(os.sched_getaffinity(0))[:2]
DELAYS_MS = (0, 10, 50, 100)
SLOW_MS = 50
ROUND_TRIP_S = 2 * SLOW_MS / 1e3
SMALL_STREAMS = (8, 32, 64)
BILLION_STREAMS = (32, 64)
PLAIN = load_servers.PLAIN
# Drafts go on while so many steps of them are under way.
DRAFTS = ("--speculation", "auto", "--drafts-ahead", "2")
OWN_DRAFTS = 8  # of a step, by the model itself: shows the mechanism

Ratios = dict[str, judgement.Ratio]
Answers = dict[str, list[dict]]


def column(answers: list[dict]) -> list[float]:
    return load_servers.column(answers, "steady")


def against(values: list[dict], peers: list[dict]) -> judgement.Ratio:
    return judgement.paired_ratio(column(values), column(peers))


class Chains:
    """Chains over links of several delays, with one split."""

    def __init__(self, package, split: list[int]):
        self.package = package
        self.split = split
        self.open = {}

    @classmethod
    def probed(cls, package, load: list, tokens: int) -> "Chains":
        return cls(package, load_servers.probed_split(package, CORES, 1, load, tokens))

    def at(self, delay_ms: int, flags: tuple[str, ...] = PLAIN) -> load_servers.Chain:
        if (delay_ms, flags) not in self.open:
            self.open[delay_ms, flags] = load_servers.Chain(
                f"chain over {delay_ms} ms", self.package, CORES, 1, self.split, delay_ms, flags)
        return self.open[delay_ms, flags]

    def one(self) -> load_servers.Chain:
        """One process on one core: what steps take."""
        if "one" not in self.open:
            self.open["one"] = load_servers.Chain("one process", self.package, CORES[:1], 1, flags=PLAIN)
        return self.open["one"]

    def close(self) -> None:
        for chain in self.open.values():
            chain.close()


def table(title: str, answers: Answers) -> None:
    print(f"\n{title}")
    print(f"{'':24} {'tokens/s in decode (range)':>28} {'TTFT ms':>9}  groups, use of stages, accepted of drafted")
    for name, own in answers.items():
        last = own[-1]
        print(f"{name:24} {load_servers.spread(own, 'steady'):>28} {load_servers.median(own, 'ttft_ms'):9.0f}  "
              f"{last.get('groups', '')}  {', '.join(f'{share:.2f}' for share in last.get('use', []))}  "
              f"{' of '.join(map(str, last.get('drafts', [])))}")


def rpc_peers(layers: int) -> dict[int, load_servers.LlamaRpc]:
    if not llama_library.is_built():
        print("llama.cpp is not built, so it is not in the table: scripts/bench decode builds it")
        return {}
    library, gguf = llama_library.library(), models.smollm2_gguf()
    return {ms: load_servers.LlamaRpc(library, gguf, CORES, layers, ms) for ms in DELAYS_MS}


def delays(arguments) -> tuple[Ratios, dict[str, float]]:
    prompts = load_servers.Prompts(49152)
    chains = Chains.probed(models.smollm2(), prompts.take(1, 64), 32)
    peers = rpc_peers(sum(chains.split))

    def cells() -> load_servers.Cells:
        load = prompts.take(1, 64)
        found = {f"{ms} ms": lambda ms=ms: chains.at(ms).ask(load, 24) for ms in DELAYS_MS}
        found |= {f"llama.cpp RPC, {ms} ms": lambda peer=peer: peer.ask(load[0], 24) for ms, peer in peers.items()}
        return found | {"one process": lambda: chains.one().ask(load, 24)}

    answers = load_servers.interleaved(cells, arguments.blocks, arguments.trial)
    chains.close()
    for peer in peers.values():
        peer.close()
    table("one stream, SmolLM2", answers)
    ratios = {f"delays.{ms}.of_llama": against(answers[f"{ms} ms"], answers[f"llama.cpp RPC, {ms} ms"])
              for ms in peers}  # fmt: skip
    for ms in DELAYS_MS:
        bounds = [1 / (2 * ms / 1e3 + 1 / rate) for rate in column(answers["one process"])]
        ratios[f"delays.{ms}.of_bound"] = judgement.paired_ratio(column(answers[f"{ms} ms"]), bounds)
    return ratios, {}


def own_draft_split(package) -> list[int]:
    """The first machine makes OWN_DRAFTS guesses and what they are made from, each by a pass of the whole model."""
    load = load_servers.Prompts(49152, seed=8).take(1, 64)
    probed, times = load_servers.measured_times(package, CORES, 1, None, load, 32)
    layers = sum(probed)
    drafting = (OWN_DRAFTS + 1) * (layers * times.layer + times.head)
    split = layer_split.divide(layers, len(CORES), dataclasses.replace(times, first=drafting))
    print(f"with the model as its own draft: split {'+'.join(map(str, split))}", flush=True)
    return split


def speculation(arguments) -> tuple[Ratios, dict[str, float]]:
    texts = wan_texts.Texts()
    package = models.smollm2()
    chains = Chains.probed(package, load_servers.Prompts(49152).take(1, 64), 32)
    own_drafts = Chains(package, own_draft_split(package))
    own_flags = ("--draft", str(package), "--drafts", str(OWN_DRAFTS), "--drafts-ahead", "2")

    def cells() -> load_servers.Cells:
        # The same text twice would be foreseen from its first answer.
        seed, repetitive, free, greedy = texts.seed(), [texts.repetitive()], [texts.free()], [texts.free()]
        found = {}
        for name, flags in {"plain": PLAIN, "drafts": DRAFTS}.items():
            chain = chains.at(SLOW_MS, flags)
            found[f"repetition.{name}"] = lambda chain=chain: chain.ask(repetitive, 96)
            found[f"free.{name}"] = lambda chain=chain: chain.ask(free, 64, 1.0, seed)
        own = own_drafts.at(SLOW_MS, own_flags)
        found["free.own draft"] = lambda: own.ask(free, 64, 1.0, seed)
        found["greedy.plain"] = lambda: chains.at(SLOW_MS).ask(greedy, 96)
        found["greedy.own draft"] = lambda: own.ask(greedy, 96)
        return found

    answers = load_servers.interleaved(cells, arguments.blocks, arguments.trial)
    chains.close()
    own_drafts.close()
    table(f"one stream at {SLOW_MS} ms, SmolLM2", answers)
    ratios = {f"speculation.{text}": against(answers[f"{text}.drafts"], answers[f"{text}.plain"])
              for text in ("repetition", "free")}  # fmt: skip
    ratios |= {f"speculation.own_draft.{text}": against(answers[f"{text}.own draft"], answers[f"{text}.plain"])
               for text in ("greedy", "free")}  # fmt: skip
    return ratios, {"speculation.repetition": 4.0, "speculation.free": 0.97, "speculation.own_draft.greedy": 6.0}


def best_of_groups(n: int, step_s: dict[int, float]) -> float:
    """Tokens per second that the best number of groups would give over two stages and the link."""
    return max(n / max(groups * step_s[n // groups] / 2, step_s[n // groups] + ROUND_TRIP_S)
               for groups in range(1, n + 1) if n % groups == 0 and n // groups in step_s)  # fmt: skip


def streams(arguments) -> tuple[Ratios, dict[str, float]]:
    prompts = load_servers.Prompts(49152)
    chains = Chains.probed(models.smollm2(), prompts.take(32, 16), 32)
    tokens = 16 if arguments.trial else 48

    def cells() -> load_servers.Cells:
        found = {}
        for n in SMALL_STREAMS:
            load = prompts.take(n, 16)
            for ms in (0, SLOW_MS):
                found[f"{n} at {ms} ms"] = lambda ms=ms, load=load: chains.at(ms).ask(load, tokens)
            found[f"{n}, one process"] = lambda load=load: chains.one().ask(load, tokens)
        return found

    answers = load_servers.interleaved(cells, arguments.blocks, arguments.trial)
    chains.close()
    table("many streams, SmolLM2", answers)
    ratios = {}
    for n in SMALL_STREAMS:
        bounds = [min(fast, n / (ROUND_TRIP_S + n / one)) for fast, one in zip(
            column(answers[f"{n} at 0 ms"]), column(answers[f"{n}, one process"]))]  # fmt: skip
        ratios[f"streams.{n}.of_bound"] = judgement.paired_ratio(column(answers[f"{n} at {SLOW_MS} ms"]), bounds)
    return ratios, {name: 0.9 for name in ratios}


def billion(arguments) -> tuple[Ratios, dict[str, float]]:
    prompts = load_servers.Prompts(128000)
    chains = Chains.probed(models.random_llama("1b", "q4_0", 128256), prompts.take(32, 8), 24)
    sizes = (4, 8, 16, 32)

    def cells() -> load_servers.Cells:
        found = {}
        for n in BILLION_STREAMS:
            load = prompts.take(n, 8)
            for ms in (0, SLOW_MS):
                found[f"{n} at {ms} ms"] = lambda ms=ms, load=load: chains.at(ms).ask(load, 32)
        for n in sizes:
            load = prompts.take(n, 8)
            found[f"{n}, one process"] = lambda load=load: chains.one().ask(load, 16)
        return found

    answers = load_servers.interleaved(cells, arguments.blocks, arguments.trial)
    chains.close()
    table("many streams, random 1B", answers)
    bounds = []
    for block in range(len(answers["32 at 0 ms"])):
        step_s = {n: n / column(answers[f"{n}, one process"])[block] for n in sizes}
        bounds.append(best_of_groups(32, step_s))
    ratios = {"billion.64.of_0_ms": against(answers[f"64 at {SLOW_MS} ms"], answers["64 at 0 ms"]),
              "billion.32.of_bound": judgement.paired_ratio(column(answers[f"32 at {SLOW_MS} ms"]), bounds)}
    return ratios, {"billion.64.of_0_ms": 0.85, "billion.32.of_bound": 0.9}


PARTS = {"delays": delays, "speculation": speculation, "streams": streams, "billion": billion}


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
        found, part_bounds = PARTS[part](arguments)
        for name, one in found.items():
            print(f"{name:28} {one.median:.3f} [{one.low:.3f}-{one.high:.3f}]")
        ratios |= found
        bounds |= part_bounds
    targets = [judgement.Target(name, ratios[name].median, bound, blocks=arguments.blocks)
               for name, bound in bounds.items()]  # fmt: skip
    print(judgement.report_line("wan", ratios, targets))


if __name__ == "__main__":
    main()
