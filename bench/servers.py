"""Processes under measurement: started once, asked one request at a time, idle in between."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACELINE = ROOT / "build" / "release" / "paceline"


class Server:
    """A process that answers one JSON line per line."""

    def __init__(self, name: str, command: list[str]):
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def _exchange(self, line: str) -> dict:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.name} ended with {self.process.wait()}")
        return json.loads(answer)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=30)


class GenAi(Server):
    def __init__(self, name: str, package: pathlib.Path, threads: int, properties: dict[str, str]):
        pairs = [f"{key}={value}" for key, value in properties.items()]
        peer = str(pathlib.Path(__file__).with_name("genai_peer.py"))
        super().__init__(name, [sys.executable, peer, str(package), str(threads), *pairs])
        ready = self.process.stdout.readline().strip()
        if ready != "ready":
            sys.exit(f"{name} did not start")

    def ask(self, ids: list[int], tokens: int) -> dict:
        return self._exchange(json.dumps({"ids": ids, "tokens": tokens}))


class Llama(Server):
    """llama_peer.py; `prefix` pins it."""

    def __init__(self, name: str, library, gguf: pathlib.Path, threads: int, prefix: list[str], *more: str):
        peer = str(pathlib.Path(__file__).with_name("llama_peer.py"))
        super().__init__(name, [*prefix, sys.executable, peer, str(library.libraries), str(library.binding),
                                str(gguf), str(threads), *more])  # fmt: skip
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"{name} did not start")

    def ask(self, ids: list[int], tokens: int) -> dict:
        return self._exchange(json.dumps({"ids": ids, "tokens": tokens}))


class Chain(Server):
    """`paceline generate` over local stage processes; `prefix` pins it."""

    def __init__(self, name: str, package: pathlib.Path, stages: int, threads: int, tokens: int,
                 engine: str = "paged", prefix: list[str] | None = None):
        super().__init__(
            name,
            [*(prefix or []), str(PACELINE), "generate", "--package", str(package), "--stages", str(stages),
             "--threads", str(threads), "--profile", "fast", "--ctx", "2048", "--engine", engine, "--prompts", "-",
             "--ignore-eos", "--max-tokens", str(tokens), "--json"],
        )

    def ask(self, ids: list[int], tokens: int) -> dict:
        answer = self._exchange(json.dumps(ids))
        if len(answer["tokens"]) != tokens:
            sys.exit(f"{self.name} gave {len(answer['tokens'])} tokens instead of {tokens}")
        return {
            "ttft_ms": answer["ttft_ms"],
            "decode_ms": answer["decode_ms"],
            "tokens": tokens,
            "stages": answer["chain"]["stages"],
        }
