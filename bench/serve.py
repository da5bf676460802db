#!/usr/bin/env python3
"""What HTTP costs: `paceline serve` against the engine without it (`paceline bench`), each over a worker of its own
with the same package, properties and threads, asked in turns.

throughput  32 streams at once, 128 tokens in, 64 out, new prompts each time: output tokens per second until the last
            one is there, prompts' time included
first       one stream: milliseconds from the request to the first token

Requests are POST /v1/completions with token ids, streamed; the client is one thread on plain sockets, on the same two
cores as all the rest.
"""

import argparse
import json
import selectors
import socket
import statistics
import subprocess
import time
import urllib.parse

import judgement
import load_servers
import models
from servers import PACELINE

STREAMS = 32
THROUGHPUT_BOUND = 0.97
FIRST_BOUND_MS = 3.0


class Stream:
    """A request on a connection of its own, and when the events of its answer came."""

    def __init__(self, address: tuple[str, int], body: dict):
        payload = json.dumps(body).encode()
        self.head = (f"POST /v1/completions HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n"
                     f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n").encode() + payload
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.first_at = None

    def send(self) -> None:
        self.socket.sendall(self.head)

    def read(self) -> bool:
        """Takes what is there; whether more is to come."""
        data = self.socket.recv(1 << 16)
        if self.first_at is None and b"data: {" in data:
            self.first_at = time.monotonic()
        self.received += data
        return bool(data) and not self.received.endswith(b"0\r\n\r\n")


class Service:
    """`paceline serve` over a worker, asked as load_servers.Chain is."""

    def __init__(self, package, threads: int):
        self.worker = load_servers.worker(package, None, threads)
        self.process = subprocess.Popen(
            [str(PACELINE), "serve", str(package), "--workers", self.worker.address, "--threads", str(threads),
             "--ctx", str(load_servers.CONTEXT), "--kv-memory", load_servers.KV_MEMORY, "--max-running", "128",
             "--port", "0", "--log-level", "warn", *load_servers.PLAIN],
            stdout=subprocess.PIPE, text=True)  # fmt: skip
        url = urllib.parse.urlsplit(self.process.stdout.readline().strip().removeprefix("listening on "))
        self.address = (url.hostname, url.port)
        for line in self.process.stdout:
            if line.startswith("ready: "):
                return
        raise SystemExit("paceline serve did not become ready")

    def ask(self, prompts: list[list[int]], tokens: int) -> dict:
        bodies = [{"prompt": ids, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                   "stream_options": {"include_usage": True}} for ids in prompts]  # fmt: skip
        streams = [Stream(self.address, body) for body in bodies]
        with selectors.DefaultSelector() as selector:
            begin = time.monotonic()
            for stream in streams:
                stream.send()
                selector.register(stream.socket, selectors.EVENT_READ, stream)
            while selector.get_map():
                for key, _ in selector.select():
                    if not key.data.read():
                        selector.unregister(key.fileobj)
            seconds = time.monotonic() - begin
        for stream in streams:
            stream.socket.close()
            if f'"completion_tokens":{tokens}'.encode() not in stream.received or b"[DONE]" not in stream.received:
                raise SystemExit(f"not a whole answer: {stream.received[-300:]!r}")
        firsts = [(stream.first_at - begin) * 1e3 for stream in streams]
        return {"rate": tokens * len(prompts) / seconds, "ttft_ms": statistics.median(firsts)}

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)
        self.worker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=judgement.MINIMUM_BLOCKS)
    parser.add_argument("--trial", action="store_true",
                        help="two short blocks, without waiting for idle cores: to try the benchmark itself")
    arguments = parser.parse_args()
    if arguments.trial:
        arguments.blocks = 2
    package = models.smollm2()
    engine, service = load_servers.Chain("engine", package, [None], 2), Service(package, 2)
    prompts = load_servers.Prompts(49152)

    def cells() -> load_servers.Cells:
        found = {}
        for name, server in {"engine": engine, "serve": service}.items():
            many, one = prompts.take(STREAMS, 128), prompts.take(1, 64)
            found[f"{name}.throughput"] = lambda server=server, many=many: server.ask(many, 64)
            found[f"{name}.first"] = lambda server=server, one=one: server.ask(one, 8)
        return found

    answers = load_servers.interleaved(cells, arguments.blocks, arguments.trial)
    engine.close()
    service.close()
    print(f"{'':20} {'tokens/s (range)':>26} {'TTFT ms (range)':>26}")
    for name, own in answers.items():
        print(f"{name:20} {load_servers.spread(own, 'rate'):>26} {load_servers.spread(own, 'ttft_ms'):>26}")
    throughput = judgement.paired_ratio(load_servers.column(answers["serve.throughput"], "rate"),
                                        load_servers.column(answers["engine.throughput"], "rate"))  # fmt: skip
    firsts = zip(load_servers.column(answers["serve.first"], "ttft_ms"),
                 load_servers.column(answers["engine.first"], "ttft_ms"))  # fmt: skip
    added = statistics.median(own - peer for own, peer in firsts)
    print(f"{STREAMS} streams, of the engine {throughput.median:.3f} [{throughput.low:.3f}-{throughput.high:.3f}]; "
          f"added to the first token {added:.2f} ms")
    targets = [judgement.Target("throughput", throughput.median, THROUGHPUT_BOUND, blocks=arguments.blocks),
               judgement.Target("first_added_ms", added, FIRST_BOUND_MS, at_least=False, blocks=arguments.blocks)]
    print(judgement.report_line("serve", {"throughput": throughput}, targets))


if __name__ == "__main__":
    main()
