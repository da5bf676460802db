#!/usr/bin/env python3
"""Makes the golden files of tensors that are spelled in another way than make_architectures.py has them:
experts in stacks, as transformers itself keeps them, and matrices in FP8 with their scales.

  make_spellings.py [NAME...]      writes spellings/NAME/ (default: all)

The files are those of make_architectures.py. In tensors.json an entry of three items, [name, shape, "F8_E4M3"],
is bytes: byte i is (h mod 127) + 128 * (h div 2^32 mod 2) for h = splitmix64(fnv1a(name) + i), any number but NaN.
What transformers computes is of the matrices in f32: torch reads the bytes, and each is multiplied with its
scale here. Blocks are of 128 x 128 as published, and shapes do not divide by them.
"""

import sys
import tempfile
from pathlib import Path

import make_architectures as base
import numpy as np

kHere = Path(__file__).resolve().parent / "spellings"
kBlock = 128
# Exact in f32: small integers times a power of two, around what makes a matrix as strong as the others.
kScaleCenter, kScaleStep = 3 * 2.0**-11, 2.0**-16


def of_tensors(strategy: str) -> dict:
    weights = dict(num_bits=8, type="float", strategy=strategy, symmetric=True, dynamic=False)
    return dict(
        quant_method="compressed-tensors",
        format="float-quantized",
        config_groups=dict(group_0=dict(targets=["Linear"], weights=weights)),
        ignore=["lm_head"],
    )


kFp8 = {
    "llama_fp8_blocks": dict(
        hidden_size=160,
        intermediate_size=288,
        num_hidden_layers=2,
        head_dim=40,
        quantization_config=dict(
            quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[kBlock, kBlock]
        ),
    ),
    "llama_fp8_rows": dict(num_hidden_layers=2, quantization_config=of_tensors("channel")),
    "llama_fp8_tensor": dict(num_hidden_layers=2, quantization_config=of_tensors("tensor")),
}
kStacks = {"mixtral_stacks": "mixtral", "qwen3_moe_stacks": "qwen3_moe"}


def stacked(name: str, folder: Path) -> list:
    """Names and shapes as transformers saves what it has in memory."""
    import transformers
    from safetensors import safe_open

    config = transformers.AutoConfig.from_pretrained(folder)
    network = transformers.AutoModelForCausalLM.from_config(config)
    with tempfile.TemporaryDirectory() as scratch:
        network.save_pretrained(scratch, save_original_format=False)
        with safe_open(scratch + "/model.safetensors", "np") as file:
            keys = sorted(file.keys())
            return [[key, file.get_slice(key).get_shape(), *base.spread(name, key)] for key in keys]


def scale_entry(name: str, matrix: str, shape: list) -> list:
    rows, columns = shape
    spread = [kScaleCenter, kScaleStep]
    if name.endswith("blocks"):
        return [matrix + "_scale_inv", [-(-rows // kBlock), -(-columns // kBlock)], *spread]
    return [matrix + "_scale", [rows, 1] if name.endswith("rows") else [1], *spread]


def in_fp8(name: str, folder: Path) -> list:
    with tempfile.TemporaryDirectory() as scratch:
        plain = base.tensor_list(name, str(folder), scratch)
    entries = []
    for key, shape, center, step in plain:
        if "_proj" in key:
            entries += [[key, shape, "F8_E4M3"], scale_entry(name, key, shape)]
        else:
            entries.append([key, shape, center, step])
    return entries


def fp8_bytes(key: str, shape: list) -> np.ndarray:
    drawn = base.draw(key, int(np.prod(shape)))
    signs = (drawn >> np.uint64(32)) % np.uint64(2)
    return (drawn % np.uint64(127) + np.uint64(128) * signs).astype(np.uint8).reshape(shape)


def matrix_of(entry: list, scale: np.ndarray) -> np.ndarray:
    """In f32: each element of FP8 times the scale of its block, its row, or all."""
    import torch

    key, shape, _ = entry
    values = torch.from_numpy(fp8_bytes(key, shape)).view(torch.float8_e4m3fn).to(torch.float32).numpy()
    if scale.ndim == 2 and scale.shape[1] > 1:
        scale = scale.repeat(kBlock, 0).repeat(kBlock, 1)[: shape[0], : shape[1]]
    return values * scale


def values_of(entries: list) -> dict:
    drawn = {entry[0]: base.tensor(entry) for entry in entries if len(entry) == 4}
    values = {key: value for key, value in drawn.items() if "_scale" not in key}
    for entry in entries:
        if len(entry) != 3:
            continue
        scale = drawn.get(entry[0] + "_scale_inv")
        values[entry[0]] = matrix_of(entry, drawn[entry[0] + "_scale"] if scale is None else scale)
    return values


def make(name: str) -> None:
    folder = kHere / name
    model = base.kModels[kStacks[name]] if name in kStacks else base.llama(**kFp8[name])
    plain = {key: value for key, value in model.items() if key != "quantization_config"}
    config = base.write_config(folder, plain)
    entries = stacked(name, folder) if name in kStacks else in_fp8(name, folder)
    base.write_config(folder, model)
    base.write_tensors(folder, entries)
    base.write_golden(folder, lambda: base.network_of(name, config, values_of(entries)))


if __name__ == "__main__":
    sys.exit(base.run(make, [*kStacks, *kFp8]))
