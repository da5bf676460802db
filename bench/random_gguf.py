#!/usr/bin/env python3
"""Writes a GGUF of the Llama architecture with a real configuration and random weights.

For measuring: speed and memory depend on shapes and types, not on what the weights mean, so a
file of the right shape needs no download. It is not a language model: its text is noise. The
vocabulary, merges and chat template are copied from a small real GGUF (--base), so text input,
templates and stop tokens work.

Weights: a block's integers are uniform random bits and its scale is chosen so that a weight has
mean 0 and a standard deviation of 1/sqrt(inputs), which keeps activations of order 1 through any
number of layers. Only the norm before attention doubles its output: 60 greedy tokens of the tiny
configuration then hold 55 or more different ones; without it 10 to 40, because attention averages
so flatly that the text falls into a loop. Scales and minimums vary from block to block and norm
weights around their mean, so a reader that mixes up scales, halves of a block or tensors shows.
Every tensor has a random stream of its own, from the seed and its place in the file: no two
tensors are equal, and the same arguments give the same bytes.

Rejected: quantizing random floats with gguf.quants. It does the same, many times slower, and
cannot write the K types.

Memory: one chunk of rows at a time (kChunkBytes of floats), whatever the size of the tensor.
Needs: gguf, numpy.

  random_gguf.py --base SmolLM2-135M-Instruct.Q4_1.gguf --config 1b --type q4_0 --out 1b.gguf
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType

kChunkBytes = 64 << 20
kUnusedTokenType = 5  # llama.cpp's LLAMA_TOKEN_TYPE_UNUSED
kAttentionGain = 2
kNibbleStd = np.sqrt((16**2 - 1) / 12)  # of a uniform integer 0..15


@dataclasses.dataclass(frozen=True)
class Config:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    tied: bool
    rope_base: float
    context: int


kConfigs = {
    "tiny": Config(256, 4, 4, 2, 64, 512, True, 10_000.0, 2048),
    "1b": Config(2048, 16, 32, 8, 64, 8192, True, 500_000.0, 131_072),  # Llama 3.2 1B
    "8b": Config(4096, 32, 32, 8, 128, 14_336, False, 500_000.0, 131_072),  # Llama 3.1 8B
}


# Block types: each function returns `count` blocks as uint8 [count, bytes per block] whose weights have the
# standard deviation `std`. Layouts: ggml-common.h of llama.cpp.


def column(values: np.ndarray, dtype: type) -> np.ndarray:
    """Values [count] as their bytes [count, size of dtype]."""
    return values.astype(dtype).reshape(-1, 1).view(np.uint8)


def random_scales(rng: np.random.Generator, count: int, std: float) -> np.ndarray:
    return rng.uniform(0.8, 1.2, count) * std


def random_signs(rng: np.random.Generator, shape: int | tuple[int, int]) -> np.ndarray:
    return rng.choice(np.int8([-1, 1]), shape)


def random_bytes(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    return rng.integers(0, 256, (count, width), np.uint8)


def q4_0_blocks(rng: np.random.Generator, count: int, std: float) -> np.ndarray:
    """Scale f16, 16 bytes of nibbles: w = d * (q - 8). Scales of either sign, as a quantizer writes
    them, also cancel the mean of q - 8, which is -0.5."""
    scale = random_scales(rng, count, std / kNibbleStd) * random_signs(rng, count)
    return np.hstack([column(scale, np.float16), random_bytes(rng, count, 16)])


def q4_1_blocks(rng: np.random.Generator, count: int, std: float) -> np.ndarray:
    """Scale and minimum f16, 16 bytes of nibbles: w = d * q + m; m is no multiple of d."""
    scale = random_scales(rng, count, std / kNibbleStd)
    minimum = -scale * rng.uniform(6.5, 8.5, count)
    return np.hstack(
        [column(scale, np.float16), column(minimum, np.float16), random_bytes(rng, count, 16)]
    )


def q8_0_blocks(rng: np.random.Generator, count: int, std: float) -> np.ndarray:
    """Scale f16, 32 int8: w = d * q, q in -127..127 as a quantizer writes it."""
    scale = random_scales(rng, count, std / np.sqrt((255**2 - 1) / 12))
    quants = rng.integers(-127, 128, (count, 32), np.int8)
    return np.hstack([column(scale, np.float16), quants.view(np.uint8)])


def q4_k_blocks(rng: np.random.Generator, count: int, std: float) -> np.ndarray:
    """Scales f16 d and dmin, 8 pairs of 6-bit (scale, minimum), 128 bytes of nibbles:
    w = d * scale * q - dmin * minimum."""
    scales = rng.integers(24, 41, (count, 8), np.uint8)
    minimums = scales + rng.integers(-4, 5, (count, 8), np.int8).astype(np.uint8)
    d = random_scales(rng, count, std / kNibbleStd / 32)
    low = scales[:, :4] | (scales[:, 4:] >> 4) << 6
    middle = minimums[:, :4] | (minimums[:, 4:] >> 4) << 6
    high = (scales[:, 4:] & 15) | (minimums[:, 4:] & 15) << 4
    return np.hstack(
        [
            column(d, np.float16),
            column(d * 7.5, np.float16),
            low,
            middle,
            high,
            random_bytes(rng, count, 128),
        ]
    )


def q6_k_blocks(rng: np.random.Generator, count: int, std: float) -> np.ndarray:
    """128 + 64 bytes of 6-bit integers, 16 int8 scales, scale f16 d: w = d * scale * (q - 32)."""
    scales = rng.integers(24, 41, (count, 16), np.int8) * random_signs(rng, (count, 16))
    d = random_scales(rng, count, std / np.sqrt((64**2 - 1) / 12) / 32)
    return np.hstack([random_bytes(rng, count, 192), scales.view(np.uint8), column(d, np.float16)])


def f32_blocks(rng: np.random.Generator, count: int, std: float) -> np.ndarray:
    return column(rng.standard_normal(count, np.float32) * np.float32(std), np.float32)


def f16_blocks(rng: np.random.Generator, count: int, std: float) -> np.ndarray:
    return column(rng.standard_normal(count, np.float32) * np.float32(std), np.float16)


def bf16_blocks(rng: np.random.Generator, count: int, std: float) -> np.ndarray:
    """The upper half of a little-endian f32, cut off rather than rounded: the values are random anyway."""
    return np.ascontiguousarray(f32_blocks(rng, count, std)[:, 2:])


@dataclasses.dataclass(frozen=True)
class WeightType:
    ggml: GGMLQuantizationType
    file_type: LlamaFileType
    blocks: Callable[[np.random.Generator, int, float], np.ndarray]


kTypes = {
    "q4_0": WeightType(GGMLQuantizationType.Q4_0, LlamaFileType.MOSTLY_Q4_0, q4_0_blocks),
    "q4_1": WeightType(GGMLQuantizationType.Q4_1, LlamaFileType.MOSTLY_Q4_1, q4_1_blocks),
    "q8_0": WeightType(GGMLQuantizationType.Q8_0, LlamaFileType.MOSTLY_Q8_0, q8_0_blocks),
    "q4_k": WeightType(GGMLQuantizationType.Q4_K, LlamaFileType.MOSTLY_Q4_K_S, q4_k_blocks),
    "q6_k": WeightType(GGMLQuantizationType.Q6_K, LlamaFileType.MOSTLY_Q6_K, q6_k_blocks),
    "f16": WeightType(GGMLQuantizationType.F16, LlamaFileType.MOSTLY_F16, f16_blocks),
    "bf16": WeightType(GGMLQuantizationType.BF16, LlamaFileType.MOSTLY_BF16, bf16_blocks),
    "f32": WeightType(GGMLQuantizationType.F32, LlamaFileType.ALL_F32, f32_blocks),
}


class RandomMatrix:
    """A matrix that exists only while it is written. Has the two members of numpy.ndarray that
    GGUFWriter.write_tensor_data uses: nbytes and tofile."""

    def __init__(self, rows: int, columns: int, weight_type: WeightType, seed: tuple[int, int]):
        self.block_size_, block_bytes = gguf.GGML_QUANT_SIZES[weight_type.ggml]
        if columns % self.block_size_:
            raise SystemExit(f"{columns} inputs are no multiple of {weight_type.ggml.name} blocks")
        self.rows_, self.columns_, self.type_, self.seed_ = rows, columns, weight_type, seed
        self.nbytes = rows * columns // self.block_size_ * block_bytes

    def tofile(self, file) -> None:
        rng = np.random.default_rng(self.seed_)
        std = 1 / np.sqrt(self.columns_)
        rows_per_chunk = max(1, kChunkBytes // 4 // self.columns_)
        for first in range(0, self.rows_, rows_per_chunk):
            rows = min(rows_per_chunk, self.rows_ - first)
            count = rows * self.columns_ // self.block_size_
            file.write(self.type_.blocks(rng, count, std).data)


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    rows: int
    columns: int
    type: str  # a key of kTypes, or "norm"
    mean: float = 1  # of a norm


def tensor_plan(config: Config, vocab: int, weight: str, embedding: str) -> list[Tensor]:
    """All tensors in the order in which they are written."""
    hidden = config.hidden
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    plan = [Tensor("token_embd.weight", vocab, hidden, embedding)]
    for layer in range(config.layers):
        parts = [
            Tensor("attn_norm", 1, hidden, "norm", mean=kAttentionGain),
            Tensor("attn_q", queries, hidden, weight),
            Tensor("attn_k", keys, hidden, weight),
            Tensor("attn_v", keys, hidden, weight),
            Tensor("attn_output", hidden, queries, weight),
            Tensor("ffn_norm", 1, hidden, "norm"),
            Tensor("ffn_gate", config.ffn, hidden, weight),
            Tensor("ffn_up", config.ffn, hidden, weight),
            Tensor("ffn_down", hidden, config.ffn, weight),
        ]
        plan += [dataclasses.replace(p, name=f"blk.{layer}.{p.name}.weight") for p in parts]
    plan.append(Tensor("output_norm.weight", 1, hidden, "norm"))
    if not config.tied:
        plan.append(Tensor("output.weight", vocab, hidden, embedding))
    return plan


def tensor_data(tensor: Tensor, seed: tuple[int, int]) -> np.ndarray | RandomMatrix:
    if tensor.type == "norm":
        rng = np.random.default_rng(seed)
        return (tensor.mean * rng.uniform(0.8, 1.2, tensor.columns)).astype(np.float32)
    return RandomMatrix(tensor.rows, tensor.columns, kTypes[tensor.type], seed)


def add_tensor_info(writer: GGUFWriter, tensor: Tensor, data: np.ndarray | RandomMatrix) -> None:
    if tensor.type == "norm":
        writer.add_tensor_info(tensor.name, (tensor.columns,), np.dtype(np.float32), data.nbytes)
        return
    ggml = kTypes[tensor.type].ggml
    shape = gguf.quant_shape_to_byte_shape((tensor.rows, tensor.columns), ggml)
    writer.add_tensor_info(tensor.name, shape, np.dtype(np.uint8), data.nbytes, raw_dtype=ggml)


def add_model_keys(writer: GGUFWriter, name: str, config: Config, vocab: int, weight: str) -> None:
    writer.add_type("model")
    writer.add_name(f"random {name}")
    writer.add_block_count(config.layers)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.hidden)
    writer.add_feed_forward_length(config.ffn)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_file_type(kTypes[weight].file_type)
    writer.add_vocab_size(vocab)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def copy_tokenizer(writer: GGUFWriter, base: GGUFReader, min_vocab: int) -> int:
    """Copies all tokenizer.* keys; unused tokens fill the vocabulary up to min_vocab. Returns its size."""
    vocab = 0
    for key, field in base.fields.items():
        if not key.startswith("tokenizer."):
            continue
        value = field.contents()
        is_array = field.types[0] == GGUFValueType.ARRAY
        if key == gguf.Keys.Tokenizer.LIST:
            value += [f"<|unused_{i}|>" for i in range(len(value), min_vocab)]
            vocab = len(value)
        elif key == gguf.Keys.Tokenizer.TOKEN_TYPE:
            value += [kUnusedTokenType] * (min_vocab - len(value))
        elif key == gguf.Keys.Tokenizer.SCORES:
            value += [0.0] * (min_vocab - len(value))
        writer.add_key_value(key, value, field.types[0], field.types[-1] if is_array else None)
    if not vocab:
        raise SystemExit("the base file has no vocabulary")
    return vocab


def write_gguf(args: argparse.Namespace) -> None:
    config = kConfigs[args.config]
    writer = GGUFWriter(args.out, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.LLAMA])
    vocab = copy_tokenizer(writer, GGUFReader(args.base), args.min_vocab)
    add_model_keys(writer, args.config, config, vocab, args.type)

    plan = tensor_plan(config, vocab, args.type, args.embedding_type)
    data = [tensor_data(tensor, (args.seed, i)) for i, tensor in enumerate(plan)]
    for tensor, values in zip(plan, data):
        add_tensor_info(writer, tensor, values)

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for values in data:
        writer.write_tensor_data(values)
    writer.close()
    weights = sum(tensor.rows * tensor.columns for tensor in plan)
    print(f"{args.out}: {len(plan)} tensors, {weights / 1e6:.1f} M weights")


def parse_args(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--base", type=Path, required=True, help="GGUF to copy the tokenizer from")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", choices=kConfigs, default="tiny")
    parser.add_argument("--type", choices=kTypes, default="q4_0", help="type of the matrices")
    parser.add_argument(
        "--embedding-type", choices=kTypes, default="q6_k", help="type of the embedding and an untied head"
    )
    parser.add_argument(
        "--min-vocab", type=int, default=0, help="fill up with unused tokens (Llama 3: 128256)"
    )
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


if __name__ == "__main__":
    write_gguf(parse_args(sys.argv[1:]))
