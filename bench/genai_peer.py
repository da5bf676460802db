"""A peer for benchmarks: openvino_genai on a package, one request per line.

usage: genai_peer.py PACKAGE THREADS [PROPERTY=VALUE ...]
Prints "ready" once it is loaded. Each line of standard input, {"ids": [...], "tokens": N}, is answered
by {"ttft_ms": ..., "decode_ms": ..., "tokens": N, "anonymous_bytes": ...}: greedy, end tokens
ignored; the times are those at which each token is handed over.
"""

import json
import sys
import time

import numpy
import openvino
import openvino_genai


class Stopwatch(openvino_genai.StreamerBase):
    """Notes when each token comes."""

    def __init__(self):
        super().__init__()
        self.times = []

    def write(self, token):
        count = len(token) if isinstance(token, list) else 1
        self.times += [time.perf_counter()] * count
        return openvino_genai.StreamingStatus.RUNNING

    def end(self):
        pass


def anonymous_bytes() -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def answer(pipeline, request: dict) -> dict:
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = request["tokens"]
    config.min_new_tokens = request["tokens"]
    config.ignore_eos = True
    config.do_sample = False
    config.apply_chat_template = False
    stopwatch = Stopwatch()
    ids = openvino.Tensor(numpy.array([request["ids"]], numpy.int64))
    begin = time.perf_counter()
    pipeline.generate(ids, config, stopwatch)
    times = stopwatch.times
    return {
        "ttft_ms": (times[0] - begin) * 1e3,
        "decode_ms": (times[-1] - times[0]) * 1e3,
        "tokens": len(times),
        "anonymous_bytes": anonymous_bytes(),
    }


def main() -> None:
    package, threads, *pairs = sys.argv[1:]
    properties = dict(pair.split("=", 1) for pair in pairs)
    pipeline = openvino_genai.LLMPipeline(
        package, "CPU", INFERENCE_NUM_THREADS=int(threads), NUM_STREAMS=1, **properties
    )
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(pipeline, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
