#!/usr/bin/env python3
"""llama.cpp as a measured process: one model, one stream, greedy.

  llama_peer.py LIBRARIES BINDING GGUF THREADS [ENDPOINT LAYERS]    answers lines {"ids": [...], "tokens": N}
  llama_peer.py LIBRARIES BINDING --rpc-server ENDPOINT THREADS     computes layers for another process

LIBRARIES has libllama and libggml, BINDING is the folder of the ctypes binding that belongs to them
(llama_library.py makes both). With ENDPOINT, HOST:PORT, the last LAYERS layers are computed there, the head here.
"""

import ctypes
import json
import os
import pathlib
import sys
import time
import types

import numpy

CONTEXT = 2048


def open_binding(libraries: str, folder: str):
    """The low-level binding alone: its package would import far more."""
    os.environ["LLAMA_CPP_LIB_PATH"] = libraries
    package = types.ModuleType("llama_cpp")
    package.__path__ = [folder]
    sys.modules["llama_cpp"] = package
    import llama_cpp.llama_cpp as binding

    return binding


def open_rpc(libraries: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(pathlib.Path(libraries) / "libggml-rpc.so"))


def serve_layers(libraries: str, endpoint: str, threads: int) -> None:
    base = ctypes.CDLL(str(pathlib.Path(libraries) / "libggml.so"), mode=ctypes.RTLD_GLOBAL)
    rpc = open_rpc(libraries)
    base.ggml_backend_load_all()
    base.ggml_backend_dev_by_type.restype = ctypes.c_void_p
    devices = (ctypes.c_void_p * 1)(base.ggml_backend_dev_by_type(0))  # the CPU
    start = rpc.ggml_backend_rpc_start_server
    start.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    print(f"listening on {endpoint}", flush=True)
    start(endpoint.encode(), None, threads, 1, devices)


class Model:
    def __init__(self, binding, libraries: str, gguf: str, threads: int, remote: list[str]):
        self.binding = binding
        quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        self.keep = [quiet]
        binding.llama_log_set(quiet, None)
        binding.llama_backend_init()
        parameters = binding.llama_model_default_params()
        parameters.n_gpu_layers = 0
        if remote:
            self.place(parameters, libraries, *remote)
        self.model = binding.llama_model_load_from_file(gguf.encode(), parameters)
        if not self.model:
            sys.exit(f"{gguf}: llama.cpp does not load it")
        context = binding.llama_context_default_params()
        context.n_ctx = CONTEXT
        context.n_batch = context.n_ubatch = 512
        context.n_threads = context.n_threads_batch = threads
        self.context = binding.llama_init_from_model(self.model, context)
        self.vocabulary = binding.llama_vocab_n_tokens(binding.llama_model_get_vocab(self.model))

    def place(self, parameters, libraries: str, endpoint: str, layers: str) -> None:
        rpc = open_rpc(libraries)
        rpc.ggml_backend_rpc_add_server.restype = ctypes.c_void_p
        registry = ctypes.c_void_p(rpc.ggml_backend_rpc_add_server(endpoint.encode()))
        base = ctypes.CDLL(str(pathlib.Path(libraries) / "libggml-base.so"))
        base.ggml_backend_reg_dev_get.restype = ctypes.c_void_p
        device = base.ggml_backend_reg_dev_get(registry, ctypes.c_size_t(0))
        devices = (ctypes.c_void_p * 2)(device, None)
        self.keep.append(devices)
        parameters.devices = ctypes.addressof(devices)
        parameters.n_gpu_layers = int(layers)

    def step(self, ids: list[int]) -> int:
        array = (self.binding.llama_token * len(ids))(*ids)
        if self.binding.llama_decode(self.context, self.binding.llama_batch_get_one(array, len(ids))):
            sys.exit("llama_decode failed")
        logits = self.binding.llama_get_logits_ith(self.context, -1)
        return int(numpy.ctypeslib.as_array(logits, (self.vocabulary,)).argmax())

    def answer(self, ids: list[int], tokens: int) -> dict:
        self.binding.llama_memory_clear(self.binding.llama_get_memory(self.context), True)
        begin = time.perf_counter()
        token = self.step(ids)
        times = [time.perf_counter()]
        while len(times) < tokens:
            token = self.step([token])
            times.append(time.perf_counter())
        return {
            "ttft_ms": (times[0] - begin) * 1e3,
            "decode_ms": (times[-1] - times[0]) * 1e3,
            "tokens": tokens,
        }


def main() -> None:
    libraries, folder, what, *rest = sys.argv[1:]
    if what == "--rpc-server":
        serve_layers(libraries, rest[0], int(rest[1]))
        return
    model = Model(open_binding(libraries, folder), libraries, what, int(rest[0]), rest[1:])
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(model.answer(request["ids"], request["tokens"])), flush=True)


if __name__ == "__main__":
    main()
