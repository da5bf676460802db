"""Chains and peers that answer loads of many requests, and the turns in which they are asked."""

import atexit
import json
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import layer_split
import llama_library
import quiet
from servers import PACELINE, Llama, Server

# As profile fast sets them (src/engine/device_properties.cc); the group is the weights'.
PROPERTIES = {
    "INFERENCE_PRECISION_HINT": "bf16",
    "KV_CACHE_PRECISION": "u8",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "32",
    "KEY_CACHE_QUANT_MODE": "BY_TOKEN",
}
CONTEXT = 2048
KV_MEMORY = "1GB"
PLAIN = ("--speculation", "off")  # as the peer

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of atexit


def pinned(core: int | None, command: list[str]) -> list[str]:
    return command if core is None else ["taskset", "-c", str(core), *command]


class Listening:
    """A worker or a relay in the background, and its address."""

    def __init__(self, command: list[str]):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.terminate)  # it would outlive a benchmark that ends early
        line = self.process.stdout.readline().strip()
        if not line.startswith("listening on "):
            sys.exit(f"{command}: no address")
        self.address = line.removeprefix("listening on ")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)


def worker(package: pathlib.Path, core: int | None, threads: int) -> Listening:
    return Listening(pinned(core, [
        str(PACELINE), "worker", "--listen", "127.0.0.1:0", "-p", str(package),
        "--threads", str(threads), "--log-level", "error"]))  # fmt: skip


def relay(address: str, delay_ms: int, mbit: int = 0) -> Listening:
    return Listening([str(PACELINE), "relay", "--to", address, "--delay-ms", str(delay_ms), "--mbit", str(mbit)])


class Chain(Server):
    """`paceline bench` that is asked one load after the other.

    `cores`: one per stage, each of which is a worker pinned to it with `threads` threads; the coordinator
    shares the first one's. `delay_ms`: of each direction, between that machine and each later stage, `mbit` its
    rate (0: no limit).
    """

    def __init__(self, name: str, package: pathlib.Path, cores: list[int | None], threads: int = 1,
                 split: list[int] | None = None, delay_ms: int | None = None, flags: tuple[str, ...] = PLAIN,
                 mbit: int = 0):
        self.helpers = []
        addresses = []
        for stage, core in enumerate(cores):
            self.helpers.append(worker(package, core, threads))
            if stage > 0 and delay_ms is not None:
                self.helpers.append(relay(self.helpers[-1].address, delay_ms, mbit))
            addresses.append(self.helpers[-1].address)
        command = [str(PACELINE), "bench", "-p", str(package), "--workers", ",".join(addresses),
                   "--threads", str(threads), "--ctx", str(CONTEXT), "--kv-memory", KV_MEMORY,
                   "--max-running", "128", "--loads", "-", *flags]  # fmt: skip
        if split:
            command += ["--split", ",".join(map(str, split))]
        super().__init__(name, pinned(cores[0], command))

    def ask(self, prompts: list, tokens: int, temperature: float = 0.0, seed: int = 0) -> dict:
        result = self._exchange(json.dumps({
            "prompts": prompts, "concurrency": len(prompts), "output_tokens": tokens,
            "temperature": temperature, "seed": seed}))  # fmt: skip
        if result["done"] != len(prompts) or result["reused_tokens"]:
            sys.exit(f"{self.name}: {result['done']} of {len(prompts)} done, "
                     f"{result['reused_tokens']} tokens of prompts not computed")  # fmt: skip
        stages = result["chain"]["stages"]
        return {
            "rate": result["output_tokens_per_second"],
            "steady": result["steady_tokens_per_second"],
            "ttft_ms": result["ttft_ms"]["p50"],
            "busy": [use * result["seconds"] for use in result["stage_use"]],
            "use": result["stage_use"],
            "layers": [stage["layers"][1] - stage["layers"][0] for stage in stages],
            "groups": result["groups"],
            "step_tokens": result["step_tokens"],
            "resident": [stage["resident_bytes"] for stage in stages],
            "drafts": [result["accepted_drafts"], result["drafted_tokens"]],
        }

    def close(self) -> None:
        super().close()
        for helper in reversed(self.helpers):
            helper.close()


class GenAi(Server):
    """batching_peer.py."""

    def __init__(self, name: str, package: pathlib.Path, core: int | None, threads: int = 1):
        peer = str(pathlib.Path(__file__).with_name("batching_peer.py"))
        pairs = [f"{key}={value}" for key, value in PROPERTIES.items()]
        super().__init__(name, pinned(core, [sys.executable, peer, str(package), str(threads), *pairs]))
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"{name} did not start")

    def ask(self, prompts: list[list[int]], tokens: int) -> dict:
        result = self._exchange(json.dumps({"prompts": prompts, "tokens": tokens}))
        if result["tokens"] != tokens * len(prompts):
            sys.exit(f"{self.name} gave {result['tokens']} tokens for {len(prompts)} times {tokens}")
        return {
            "rate": result["tokens"] / result["seconds"],
            "steady": result["steady_tokens_per_second"],
            "ttft_ms": statistics.median(result["ttft_ms"]),
            "resident": [result["resident_bytes"]],
        }


class LlamaRpc:
    """llama.cpp on one core, the second half of the layers on another one behind a slow link; one stream."""

    def __init__(self, library: llama_library.Library, gguf: pathlib.Path, cores: list[int], layers: int,
                 delay_ms: int):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            endpoint = f"127.0.0.1:{free.getsockname()[1]}"
        peer = str(pathlib.Path(__file__).with_name("llama_peer.py"))
        self.server = Listening(pinned(cores[1], [
            sys.executable, peer, str(library.libraries), str(library.binding), "--rpc-server", endpoint, "1"]))
        time.sleep(1)  # it says where before it listens
        self.relay = relay(endpoint, delay_ms)
        self.client = Llama("llama.cpp RPC", library, gguf, 1, pinned(cores[0], []),
                            self.relay.address, str(layers // 2))  # fmt: skip

    def ask(self, ids: list[int], tokens: int) -> dict:
        answer = self.client.ask(ids, tokens)
        return {"steady": (tokens - 1) / answer["decode_ms"] * 1e3, "ttft_ms": answer["ttft_ms"]}

    def close(self) -> None:
        self.client.close()
        self.relay.close()
        self.server.process.kill()
        self.server.process.wait(timeout=30)


class Prompts:
    """Random prompts, no two alike, so that nothing of them is cached."""

    def __init__(self, vocabulary: int, seed: int = 7):
        self.generator = random.Random(seed)
        self.vocabulary = vocabulary

    def take(self, count: int, tokens: int) -> list[list[int]]:
        return [[self.generator.randrange(1000, self.vocabulary) for _ in range(tokens)] for _ in range(count)]


PROBES = 3  # the times of a far too uneven split tell little of the best one


def measured_times(package: pathlib.Path, cores: list[int | None], threads: int, split: list[int] | None,
                   load: list, tokens: int) -> tuple[list[int], layer_split.Times]:
    """The layers of each stage, as asked for or else as the planner divides them, and what they take."""
    probe = Chain("probe", package, cores, threads, split)
    probe.ask([ids[::-1] for ids in load], tokens)  # the first one warms up
    answer = probe.ask(load, tokens)
    probe.close()
    return answer["layers"], layer_split.times_of(answer["layers"], answer["busy"])


def probed_split(package: pathlib.Path, cores: list[int | None], threads: int, load: list, tokens: int) -> list[int]:
    """Layers per stage by the times that `load` takes, first on a chain as the planner divides it, then on the
    chain that these times ask for, until it stays; printed."""
    if len(cores) == 1:
        return []
    split = None
    for _ in range(PROBES):
        probed, times = measured_times(package, cores, threads, split, load, tokens)
        split = layer_split.divide(sum(probed), len(cores), times)
        if split == probed:
            break
    print(f"{len(load)} requests, {len(load[0])} in, {tokens} out, {len(cores)} stages: the head takes as long as "
          f"{times.head / times.layer:.1f} layers; split {'+'.join(map(str, split))}", flush=True)
    return split


Cells = dict[str, Callable[[], dict]]


def interleaved(cells: Callable[[], Cells], blocks: int, trial: bool) -> dict[str, list[dict]]:
    """Each block asks every cell of cells() once, in a rotating order; a first block warms up, unless it is a trial."""
    answers: dict[str, list[dict]] = {}
    noisy = 0
    for block in range(0 if trial else -1, blocks):
        named = list(cells().items())
        shift = block % len(named)
        for name, ask in named[shift:] + named[:shift]:
            noisy += not trial and not quiet.wait_until_quiet()
            answer = ask()
            if block >= 0:
                answers.setdefault(name, []).append(answer)
    if noisy:
        print(f"NOTE: {noisy} measurements began although the cores were busy")
    return {name: answers[name] for name in cells()}


def column(answers: list[dict], key: str) -> list[float]:
    return [answer[key] for answer in answers]


def median(answers: list[dict], key: str) -> float:
    return statistics.median(column(answers, key))


def spread(answers: list[dict], key: str) -> str:
    values = column(answers, key)
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def mebibytes(bytes_: list[int]) -> str:
    return "+".join(f"{one / 2**20:.0f}" for one in bytes_)
