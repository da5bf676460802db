#!/usr/bin/env python3
"""Makes the golden files of the graph builder: for each architecture a tiny model with random weights and
the logits that Hugging Face transformers computes for it in f32.

  make_architectures.py [NAME...]      writes architectures/NAME/ (default: all)

A directory holds
  config.json   in the spelling of published models
  tensors.json  name, shape, center and step of each tensor; element i is center + step * k with
                k = splitmix64(fnv1a(name) + i) mod 127 - 63. All of them are exact in F32, F16 and BF16, so
                the weights need not be kept: a test writes them anew, in any of these types.
  golden.json   token ids [2, tokens], what is padding on the left of the second row, the runs, and the
                greedy tokens that follow the first run
  logits.bin    f32 logits [runs, 2, tokens, vocabulary]; each run sends `prefill` tokens at once and
                the others one by one

Norm weights are away from 1, biases away from 0, attention is sharp, windows and original contexts
are shorter than the text: leaving out or flipping any one flag of a configuration shows in the logits.
Needs architectures.requirements.txt, in a virtual environment outside the repository.
"""

import argparse
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

kHere = Path(__file__).resolve().parent / "architectures"
kVocab, kTokens, kPrefill, kShortPrefill, kGreedy, kPadding = 64, 72, 64, 24, 16, 5
kContext, kOriginal, kWindow = 128, 32, 16

kBase = dict(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    vocab_size=kVocab,
    max_position_embeddings=kContext,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    tie_word_embeddings=False,
    hidden_act="silu",
    torch_dtype="float32",
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)


def llama(**options) -> dict:
    return dict(architectures=["LlamaForCausalLM"], model_type="llama", **options)


# Over kBase; None removes a key.
kModels = {
    "llama": llama(tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
    "llama_llama3": llama(
        rope_scaling=dict(
            factor=8.0,
            high_freq_factor=4.0,
            low_freq_factor=1.0,
            original_max_position_embeddings=kOriginal,
            rope_type="llama3",
        )
    ),
    "llama_linear": llama(rope_scaling=dict(type="linear", factor=4.0)),
    "llama_dynamic": llama(
        max_position_embeddings=kOriginal, rope_scaling=dict(type="dynamic", factor=4.0)
    ),
    "llama_yarn": llama(
        rope_scaling=dict(
            rope_type="yarn",
            factor=4.0,
            beta_fast=1.0,
            beta_slow=0.25,
            original_max_position_embeddings=kOriginal,
        )
    ),
    "mistral": dict(
        architectures=["MistralForCausalLM"], model_type="mistral", sliding_window=kWindow
    ),
    "qwen2": dict(
        architectures=["Qwen2ForCausalLM"],
        model_type="qwen2",
        head_dim=None,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
        use_sliding_window=False,
        sliding_window=kWindow,
        max_window_layers=2,
    ),
    "qwen3": dict(
        architectures=["Qwen3ForCausalLM"],
        model_type="qwen3",
        attention_bias=False,
        use_sliding_window=False,
        sliding_window=None,
        max_window_layers=4,
        rms_norm_eps=1e-6,
    ),
    "phi3": dict(
        architectures=["Phi3ForCausalLM"],
        model_type="phi3",
        head_dim=None,
        num_attention_heads=2,
        num_key_value_heads=1,
        partial_rotary_factor=0.75,
        original_max_position_embeddings=kOriginal,
        sliding_window=40,
        rope_scaling=dict(
            type="longrope",
            short_factor=[1.0, 1.1, 1.25, 1.4, 1.5, 1.75],
            long_factor=[1.0, 1.5, 2.25, 3.0, 3.5, 4.0],
        ),
    ),
    "gemma2": dict(
        architectures=["Gemma2ForCausalLM"],
        model_type="gemma2",
        hidden_act=None,
        hidden_activation="gelu_pytorch_tanh",
        query_pre_attn_scalar=24,
        attn_logit_softcapping=5.0,
        final_logit_softcapping=3.0,
        sliding_window=kWindow,
        tie_word_embeddings=True,
    ),
    "gemma3": dict(
        architectures=["Gemma3ForCausalLM"],
        model_type="gemma3_text",
        hidden_act=None,
        hidden_activation="gelu_pytorch_tanh",
        query_pre_attn_scalar=24,
        sliding_window=kWindow,
        sliding_window_pattern=3,
        rope_theta=1000000.0,
        rope_local_base_freq=10000.0,
        rope_scaling=dict(rope_type="linear", factor=8.0),
        tie_word_embeddings=True,
    ),
    "smollm3": dict(
        architectures=["SmolLM3ForCausalLM"],
        model_type="smollm3",
        head_dim=None,
        num_attention_heads=2,
        num_key_value_heads=1,
        no_rope_layers=[1, 1, 0, 1],
        no_rope_layer_interval=3,
        tie_word_embeddings=True,
        use_sliding_window=False,
        sliding_window=None,
    ),
    "olmo2": dict(
        architectures=["Olmo2ForCausalLM"],
        model_type="olmo2",
        head_dim=None,
        num_attention_heads=2,
        num_key_value_heads=1,
    ),
    "granite": dict(
        architectures=["GraniteForCausalLM"],
        model_type="granite",
        head_dim=None,
        num_attention_heads=2,
        num_key_value_heads=1,
        attention_multiplier=0.15,
        embedding_multiplier=6.0,
        residual_multiplier=0.4,
        logits_scaling=4.0,
        tie_word_embeddings=True,
    ),
    "mixtral": dict(
        architectures=["MixtralForCausalLM"],
        model_type="mixtral",
        intermediate_size=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=None,
    ),
    "qwen3_moe": dict(
        architectures=["Qwen3MoeForCausalLM"],
        model_type="qwen3_moe",
        num_experts=6,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        decoder_sparse_step=1,
        mlp_only_layers=[1],
        norm_topk_prob=True,
        use_sliding_window=False,
        sliding_window=None,
        rms_norm_eps=1e-6,
    ),
}
kModels["qwen3_moe_unscaled"] = kModels["qwen3_moe"] | dict(norm_topk_prob=False, mlp_only_layers=[])
# Their angles depend on the length, in transformers on that of the longest sequence of a batch.
kLengthDependent = {"llama_dynamic", "phi3"}


def spread(name: str, key: str) -> tuple[float, float]:
    """Center and step of a tensor."""
    if "norm" in key:
        return (0.0 if "gemma" in name else 1.0), 2.0**-7
    if key.endswith("bias"):
        return 0.0, 2.0**-8
    if "embed_tokens" in key:
        return 0.0, 2.0**-9
    return 0.0, 2.0**-7


def splitmix64(x: np.ndarray) -> np.ndarray:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def draw(key: str, count: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        return splitmix64(np.uint64(fnv1a(key)) + np.arange(count, dtype=np.uint64))


def tensor(entry: list) -> np.ndarray:
    key, shape, center, step = entry
    k = (draw(key, int(np.prod(shape))) % np.uint64(127)).astype(np.int64) - 63
    return (center + step * k).astype(np.float32).reshape(shape)


def tensor_list(name: str, config_folder: str, folder: str) -> list:
    """What transformers saves, in the spelling of published models."""
    import transformers
    from safetensors import safe_open

    config = transformers.AutoConfig.from_pretrained(config_folder)
    network = transformers.AutoModelForCausalLM.from_config(config)
    network.save_pretrained(folder)
    with safe_open(folder + "/model.safetensors", "np") as file:
        return [[key, file.get_slice(key).get_shape(), *spread(name, key)] for key in sorted(file.keys())]


def load(folder: Path, entries: list):
    """The network as published files of these tensors give it."""
    config = json.loads((folder / "config.json").read_text())
    return network_of(folder.name, config, {entry[0]: tensor(entry) for entry in entries})


def network_of(name: str, config: dict, values: dict):
    """The network that transformers loads from a configuration and f32 tensors."""
    import torch
    import transformers
    from safetensors.numpy import save_file

    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "config.json").write_text(json.dumps(config))
        save_file(values, scratch + "/model.safetensors", {"format": "pt"})
        network, info = transformers.AutoModelForCausalLM.from_pretrained(
            scratch, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
        )
    if any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")):
        raise RuntimeError(f"{name}: {info}")
    return network.eval()


def run(network, ids: np.ndarray, padding: int, prefill: int, greedy: int):
    """Logits [2, tokens, vocabulary], and the greedy tokens after them with their smallest lead."""
    import torch

    mask = torch.ones(2, ids.shape[1] + greedy, dtype=torch.int64)
    mask[1, :padding] = 0
    positions = (mask.cumsum(1) - 1).masked_fill(mask == 0, 1)
    ids = torch.from_numpy(ids)
    logits, cache, begin, lead = [], None, 0, float("inf")
    while begin < ids.shape[1]:
        end = prefill if begin == 0 else begin + 1
        with torch.no_grad():
            result = network(
                input_ids=ids[:, begin:end],
                attention_mask=mask[:, :end],
                position_ids=positions[:, begin:end],
                past_key_values=cache,
                use_cache=True,
            )
        cache, begin = result.past_key_values, end
        logits.append(result.logits.numpy())
        if kTokens <= end < kTokens + greedy:
            best = result.logits[:, -1].topk(2).values
            lead = min(lead, float((best[:, 0] - best[:, 1]).min()))
            ids = torch.cat([ids, result.logits[:, -1].argmax(-1, keepdim=True)], 1)
    return np.concatenate(logits, 1)[:, :kTokens], ids[:, kTokens:].tolist(), lead


def write_config(folder: Path, model: dict) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    config = {k: v for k, v in (kBase | model).items() if v is not None or k not in kBase}
    config["architectures"] = config.pop("architectures")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return config


def write_tensors(folder: Path, entries: list) -> None:
    text = ",\n".join(json.dumps(entry) for entry in entries)
    (folder / "tensors.json").write_text(f"[\n{text}\n]\n")


def make(name: str) -> None:
    folder = kHere / name
    write_config(folder, kModels[name])
    with tempfile.TemporaryDirectory() as scratch:
        entries = tensor_list(name, str(folder), scratch)
    write_tensors(folder, entries)
    write_golden(folder, lambda: load(folder, entries))


def write_golden(folder: Path, load_network) -> None:
    """golden.json and logits.bin, by new networks: one remembers which rope it used last."""
    name = folder.name
    ids = (draw(f"{name} tokens", 2 * kTokens) % np.uint64(kVocab - 3)).astype(np.int64).reshape(2, -1) + 3
    padding = 0 if name in kLengthDependent else kPadding
    ids[1, :padding] = 0
    network = load_network()
    prefills = [kPrefill, kShortPrefill] if name in kLengthDependent else [kPrefill]
    logits, greedy, lead = run(network, ids, padding, kPrefill, kGreedy)
    runs = [logits] + [run(load_network(), ids, padding, p, 0)[0] for p in prefills[1:]]
    golden = dict(
        input_ids=ids.tolist(), padding=padding, prefills=prefills, greedy=greedy, vocabulary=kVocab
    )
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    np.stack(runs).astype("<f4").tofile(folder / "logits.bin")

    std = float(logits[0].std())
    other, _, _ = run(network, ids, padding, kShortPrefill, 0)
    change = np.abs(other[:, kPadding:] - logits[:, kPadding:]).max() / std
    distinct = len(set(sum(greedy, [])))
    print(f"{name}: std {std:.3f}, other chunks {change:.1e}, lead {lead / std:.1e}, {distinct} greedy tokens")
    if name not in kLengthDependent and change > 2e-5:
        raise RuntimeError("the logits depend on how the text is divided")
    if lead < 1e-3 * std:
        raise RuntimeError("two tokens are nearly equal")


def run(make_one, known: list[str]) -> int:
    """Makes the models that the command line names, of those `known`."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    names = parser.parse_args().names or known
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}
    warnings.simplefilter("ignore")
    for name in names:
        make_one(name)
    return 0


if __name__ == "__main__":
    sys.exit(run(make, list(kModels)))
