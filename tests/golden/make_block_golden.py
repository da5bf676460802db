#!/usr/bin/env python3
"""Writes block_golden.json: random blocks of each ggml type and the values that the gguf package
reads in them. Run with the packages of requirements.txt installed; the result is checked in.

F8_E4M3, which gguf does not know, holds each of its 256 bit patterns and is widened by ml_dtypes'
definition in plain Python.
"""

import json
import pathlib

import gguf
import numpy as np

TYPES = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
         "IQ4_XS"]
# Where the f16 numbers of a block lie: random bits there would be NaN now and then.
HALVES = {"Q4_1": [0, 2], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208]}
BLOCKS = 3


def random_blocks(kind, random):
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for at in HALVES.get(kind.name, [0]):
        halves = random.uniform(-2, 2, (BLOCKS, 1)).astype(np.float16)
        blocks[:, at : at + 2] = halves.view(np.uint8)
    return blocks


def f8e4m3(bits):
    """The value of a byte; None for NaN."""
    sign = -1.0 if bits & 0x80 else 1.0
    exponent, mantissa = bits >> 3 & 15, bits & 7
    if exponent == 15 and mantissa == 7:
        return None
    if exponent == 0:
        return sign * mantissa * 2.0**-9
    return sign * (1 + mantissa / 8) * 2.0 ** (exponent - 7)


def main():
    random = np.random.default_rng(7)
    golden = {}
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        blocks = random_blocks(kind, random)
        values = gguf.quants.dequantize(blocks.reshape(-1), kind)
        golden[name] = {"blocks": blocks.tobytes().hex(),
                        "values": [float(value) for value in values.reshape(-1)]}
    golden["F8_E4M3"] = {"blocks": bytes(range(256)).hex(),
                         "values": [f8e4m3(bits) for bits in range(256)]}
    lines = [f'"{name}": {json.dumps(entry, separators=(",", ":"))}'
             for name, entry in golden.items()]
    path = pathlib.Path(__file__).with_name("block_golden.json")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
