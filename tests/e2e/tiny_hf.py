"""Writes a Hugging Face directory of a very small Llama: config.json, safetensors, tokenizer.

The weights are random, by a seed, and large enough that the next token
depends on what came before.
"""

import functools
import json
import struct
from pathlib import Path

import numpy as np
import paceline_testing as testing
from tiny_gguf import byte_characters

kHidden, kFfn, kLayers, kHeads, kKvHeads = 64, 128, 4, 2, 1
kSpecial = ["<s>", "</s>", "<|end|>"]
kBos, kEos, kEnd = 257, 258, 259
kTemplate = "{{ bos_token }}{% for m in messages %}{{ m.content }}<|end|>{% endfor %}"


def tokens() -> list[str]:
    return [*byte_characters(), "ab", *kSpecial]


def config() -> dict:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": kHidden, "intermediate_size": kFfn, "num_hidden_layers": kLayers,
        "num_attention_heads": kHeads, "num_key_value_heads": kKvHeads,
        "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "vocab_size": len(tokens()), "torch_dtype": "float32",
        "bos_token_id": kBos, "eos_token_id": kEos,
    }  # fmt: skip


def weights(seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    kv = kHidden // kHeads * kKvHeads
    shapes = {"model.embed_tokens.weight": (len(tokens()), kHidden)}
    for layer in range(kLayers):
        of_layer = {
            "input_layernorm": (kHidden,), "post_attention_layernorm": (kHidden,),
            "self_attn.q_proj": (kHidden, kHidden), "self_attn.k_proj": (kv, kHidden),
            "self_attn.v_proj": (kv, kHidden), "self_attn.o_proj": (kHidden, kHidden),
            "mlp.gate_proj": (kFfn, kHidden), "mlp.up_proj": (kFfn, kHidden),
            "mlp.down_proj": (kHidden, kFfn),
        }  # fmt: skip
        shapes |= {f"model.layers.{layer}.{name}.weight": s for name, s in of_layer.items()}
    shapes |= {"model.norm.weight": (kHidden,), "lm_head.weight": (len(tokens()), kHidden)}
    values = {}
    for name, shape in shapes.items():
        value = random.standard_normal(shape) * (0.3 if len(shape) == 2 else 0.1)
        values[name] = (value + (len(shape) == 1)).astype(np.float32)
    return values


def write_safetensors(path: Path, values: dict[str, np.ndarray]) -> None:
    """Arrays of f32, and of bytes: those are F8_E4M3."""
    header, data = {}, b""
    for name, value in values.items():
        begin = len(data)
        data += value.tobytes()
        dtype = "F8_E4M3" if value.dtype == np.uint8 else "F32"
        header[name] = {"dtype": dtype, "shape": value.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def tokenizer() -> dict:
    first = len(tokens()) - len(kSpecial)
    added = [
        {"id": first + place, "content": content, "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False, "special": True}
        for place, content in enumerate(kSpecial)
    ]  # fmt: skip
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}  # fmt: skip
    model = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
        "vocab": {token: place for place, token in enumerate(tokens()[:first])},
        "merges": [["a", "b"]],
    }  # fmt: skip
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level, "model": model,
    }  # fmt: skip


def write(directory: Path, parts: int = 1) -> Path:
    """With the weights in one file, or in several with an index."""
    directory.mkdir()
    files = {
        "config.json": config(),
        "generation_config.json": {"eos_token_id": [kEos]},
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": {"eos_token": {"content": "<|end|>"}, "chat_template": kTemplate},
        "special_tokens_map.json": {"bos_token": "<s>"},
    }
    values = weights()
    if parts == 1:
        write_safetensors(directory / "model.safetensors", values)
    else:
        names = [f"model-{part + 1:05}-of-{parts:05}.safetensors" for part in range(parts)]
        part_of = {name: names[place % parts] for place, name in enumerate(values)}
        for part in names:
            own = {name: value for name, value in values.items() if part_of[name] == part}
            write_safetensors(directory / part, own)
        files["model.safetensors.index.json"] = {"metadata": {}, "weight_map": part_of}
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))
    return directory


@functools.cache
def package() -> Path:
    """Compiled: any text, and no sense."""
    target = testing.temporary_directory() / "tiny"
    testing.run("compile", write(testing.temporary_directory() / "tiny-source"), "-o", target).check()
    return target
