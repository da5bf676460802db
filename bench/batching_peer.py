"""A peer for benchmarks: openvino_genai's continuous batching on a package, one load per line.

usage: batching_peer.py PACKAGE THREADS [PROPERTY=VALUE ...]
Prints "ready" once it is loaded. Each line of standard input, {"prompts": [[...], ...], "tokens": N}, asks all
prompts at once and is answered by {"seconds": ..., "ttft_ms": [...], "tokens": ...,
"steady_tokens_per_second": ..., "resident_bytes": ..., "anonymous_bytes": ...}: greedy, end tokens ignored, no
prefix cache; the times are those at which a step hands its tokens over.
"""

import json
import sys
import time

import numpy
import openvino
import openvino_genai
import steady

CACHE_GIB = 1
# As many rows of a step as a chain's at most (src/sched/pipeline.h).
STEP_TOKENS = 512
MOST_SEQUENCES = 64


def memory(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def open_pipeline(package: str, threads: int, properties: dict[str, str]):
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = CACHE_GIB
    scheduler.dynamic_split_fuse = True
    scheduler.max_num_batched_tokens = STEP_TOKENS
    scheduler.max_num_seqs = MOST_SEQUENCES
    scheduler.enable_prefix_caching = False
    return openvino_genai.ContinuousBatchingPipeline(
        package, scheduler, "CPU",
        {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, **properties},
    )  # fmt: skip


def greedy(tokens: int):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = tokens
    config.min_new_tokens = tokens
    config.ignore_eos = True
    config.do_sample = False
    config.apply_chat_template = False
    return config


def answer(pipeline, prompts: list[list[int]], tokens: int) -> dict:
    begin = time.perf_counter()
    handles = [
        pipeline.add_request(number, openvino.Tensor(numpy.array([ids], numpy.int64)), greedy(tokens))
        for number, ids in enumerate(prompts)
    ]
    times = [[] for _ in prompts]
    while pipeline.has_non_finished_requests():
        pipeline.step()
        now = time.perf_counter() - begin
        for handle, own in zip(handles, times):
            if len(own) < tokens and handle.can_read():
                own += [now] * sum(len(output.generated_ids) for output in handle.read().values())
    return {
        "seconds": max(own[-1] for own in times),
        "ttft_ms": [own[0] * 1e3 for own in times],
        "tokens": sum(len(own) for own in times),
        "steady_tokens_per_second": steady.tokens_per_second(times),
        "resident_bytes": memory("VmRSS"),
        "anonymous_bytes": memory("RssAnon"),
    }


def main() -> None:
    package, threads, *pairs = sys.argv[1:]
    pipeline = open_pipeline(package, int(threads), dict(pair.split("=", 1) for pair in pairs))
    answer(pipeline, [list(range(1000, 1032))] * 2, 4)  # the plugin packs the weights
    print("ready", flush=True)
    for line in sys.stdin:
        load = json.loads(line)
        print(json.dumps(answer(pipeline, load["prompts"], load["tokens"])), flush=True)


if __name__ == "__main__":
    main()
