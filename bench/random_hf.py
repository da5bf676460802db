#!/usr/bin/env python3
"""Writes a Hugging Face directory (config.json, parts of safetensors in bf16, tokenizer) of the Llama
architecture with a real configuration and random weights.

For measuring compiles: what counts is shapes, types and bytes. Every tensor has a random stream of
its own: no holes, no two equal tensors, and the same arguments give the same bytes. The tokenizer is
copied from a package (--tokenizer); a vocabulary larger than it is padded, as published models do.

  random_hf.py --config 1b --tokenizer build/bench/smollm2 --out 1b-hf
"""

import argparse
import json
import pathlib
import shutil

import numpy as np

from random_gguf import Config, kConfigs

kPartBytes = 4 << 30
kChunkValues = 16 << 20
kVocabulary = 128_256
kLargestConfig = Config(8192, 80, 64, 8, 128, 28_672, False, 500_000.0, 131_072)  # Llama 3.1 70B
kHfConfigs = kConfigs | {"70b": kLargestConfig}


def shapes(config: Config, layers: int) -> dict[str, tuple[int, ...]]:
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    result: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (kVocabulary, config.hidden)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        result |= {
            prefix + "input_layernorm.weight": (config.hidden,),
            prefix + "self_attn.q_proj.weight": (queries, config.hidden),
            prefix + "self_attn.k_proj.weight": (keys, config.hidden),
            prefix + "self_attn.v_proj.weight": (keys, config.hidden),
            prefix + "self_attn.o_proj.weight": (config.hidden, queries),
            prefix + "post_attention_layernorm.weight": (config.hidden,),
            prefix + "mlp.gate_proj.weight": (config.ffn, config.hidden),
            prefix + "mlp.up_proj.weight": (config.ffn, config.hidden),
            prefix + "mlp.down_proj.weight": (config.hidden, config.ffn),
        }
    result["model.norm.weight"] = (config.hidden,)
    if not config.tied:
        result["lm_head.weight"] = (kVocabulary, config.hidden)
    return result


def random_bf16(rng: np.random.Generator, count: int) -> np.ndarray:
    """Values of either sign between 2^-13 and 2^-5 as bits; their logarithms are uniform."""
    bits = rng.integers(0, 1 << 16, count, np.uint16)
    exponent = ((bits >> 7) & np.uint16(7)) + np.uint16(114)
    return (bits & np.uint16(0x807F)) | (exponent << np.uint16(7))


def write_part(path: pathlib.Path, tensors: dict[str, tuple[int, ...]], seed: int) -> None:
    header, offset = {}, 0
    for name, shape in tensors.items():
        end = offset + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for index, (name, shape) in enumerate(tensors.items()):
            rng = np.random.Generator(np.random.SFC64([seed, index]))
            left = int(np.prod(shape))
            while left:
                count = min(left, kChunkValues)
                values = random_bf16(rng, count)
                if name.endswith("norm.weight"):
                    values = (values & np.uint16(0x7F)) | np.uint16(0x3F80)  # 1 to 2
                file.write(values.tobytes())
                left -= count


def parts_of(tensors: dict[str, tuple[int, ...]]) -> list[dict[str, tuple[int, ...]]]:
    parts, size = [{}], 0
    for name, shape in tensors.items():
        bytes_ = 2 * int(np.prod(shape))
        if parts[-1] and size + bytes_ > kPartBytes:
            parts.append({})
            size = 0
        parts[-1][name] = shape
        size += bytes_
    return parts


def config_json(config: Config, layers: int) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": config.hidden, "intermediate_size": config.ffn, "num_hidden_layers": layers,
        "num_attention_heads": config.heads, "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim, "vocab_size": kVocabulary, "rms_norm_eps": 1e-5,
        "rope_theta": config.rope_base, "max_position_embeddings": config.context,
        "tie_word_embeddings": config.tied, "attention_bias": False, "mlp_bias": False,
        "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip


def write(directory: pathlib.Path, name: str, tokenizer: pathlib.Path, layers: int = 0, seed: int = 1) -> None:
    """`layers` 0: as many as the configuration has."""
    config = kHfConfigs[name]
    layers = layers or config.layers
    directory.mkdir(parents=True)
    parts = parts_of(shapes(config, layers))
    names = [f"model-{i + 1:05}-of-{len(parts):05}.safetensors" for i in range(len(parts))]
    for index, (file, tensors) in enumerate(zip(names, parts)):
        write_part(directory / file, tensors, seed * 1000 + index)
    total = sum(2 * int(np.prod(s)) for part in parts for s in part.values())
    index = {"metadata": {"total_size": total},
             "weight_map": {tensor: file for file, part in zip(names, parts) for tensor in part}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    (directory / "config.json").write_text(json.dumps(config_json(config, layers), indent=2))
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / file, directory / file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", choices=sorted(kHfConfigs), required=True)
    parser.add_argument("--layers", type=int, default=0, help="instead of the configuration's")
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True, help="a directory with tokenizer.json")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    write(arguments.out, arguments.config, arguments.tokenizer, arguments.layers)


if __name__ == "__main__":
    main()
