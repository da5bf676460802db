#!/usr/bin/env python3
"""Makes tiny decoder models with random weights as stateful OpenVINO IRs, and checks them.

The tests of the cutter and the engine need many architectures, not good text. Each model here is the
smallest that still has what its architecture adds to a graph (see kModels). Weights come from a fixed
seed, one random stream per parameter, and are large: logits spread, attention is sharp, and norm
weights and biases are anything but 1 and 0, so a tensor left out, swapped or cut in the wrong place
shows in the logits.

  make_tiny_models.py [NAME...]           makes the models (needs requirements.txt)
  make_tiny_models.py --check [NAME...]   checks the committed ones (needs openvino and numpy alone)

A model directory holds openvino_model.xml, openvino_model.bin (f32), config.json and
generation_config.json. There is no tokenizer: tests speak in token ids.

Rejected: making the models when the tests run (6 GB of Python packages, and other packages give other
graphs), and cutting real models down (needs a download and a licence for each).
"""

import argparse
import dataclasses
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

import openvino as ov

from tiny_model_checks import check_all, kBin, kEos, kHere, kJsons, kLayers, kVocab, kXml

kWeightStd = 0.3
kAttentionGain = 2.0
kBos, kPad = 1, 0
kSlidingWindow = 16

# The attention width (heads * head_dim = 64) is not the hidden size, so that a mix-up of the two
# shows; where the architecture ties them together there are two heads of 16.
kBase = dict(
    vocab_size=kVocab,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=kLayers,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    max_position_embeddings=512,
    bos_token_id=kBos,
    eos_token_id=kEos,
    pad_token_id=kPad,
    tie_word_embeddings=False,
)


@dataclasses.dataclass(frozen=True)
class TinyModel:
    config_class: str  # in transformers
    options: dict  # over kBase; None removes a key
    seed: int = 0  # the first with lively greedy text, see tiny_model_checks.check_logits


kModels = {
    "llama_tied": TinyModel("LlamaConfig", dict(tie_word_embeddings=True)),
    "qwen3": TinyModel("Qwen3Config", {}),
    "qwen3_moe": TinyModel(
        "Qwen3MoeConfig",
        dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, decoder_sparse_step=1),
    ),
    "mixtral": TinyModel(
        "MixtralConfig", dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=16)
    ),
    "phi3": TinyModel("Phi3Config", dict(head_dim=None, num_attention_heads=2, num_key_value_heads=1)),
    "gemma2": TinyModel(
        "Gemma2Config",
        dict(sliding_window=kSlidingWindow, query_pre_attn_scalar=16, tie_word_embeddings=True),
    ),
    "gemma3": TinyModel(
        "Gemma3TextConfig",
        dict(
            sliding_window=kSlidingWindow,
            layer_types=["sliding_attention"] * 2 + ["full_attention", "sliding_attention"],
            query_pre_attn_scalar=16,
            tie_word_embeddings=True,
        ),
        seed=3,
    ),
    "gpt_neox": TinyModel(
        "GPTNeoXConfig",
        dict(head_dim=None, num_attention_heads=2, num_key_value_heads=None),
        seed=1,
    ),
    "gpt_oss": TinyModel(
        "GptOssConfig",
        dict(
            num_local_experts=4,
            num_experts_per_tok=2,
            intermediate_size=16,
            sliding_window=kSlidingWindow,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    "bloom": TinyModel(
        "BloomConfig",
        dict(
            n_layer=4,
            n_head=2,
            num_attention_heads=None,
            num_key_value_heads=None,
            tie_word_embeddings=True,
        ),
        seed=297,
    ),
    "olmo2": TinyModel(
        "Olmo2Config", dict(head_dim=None, num_attention_heads=2, num_key_value_heads=1), seed=1
    ),
    "opt": TinyModel(
        "OPTConfig",
        dict(
            ffn_dim=64,
            word_embed_proj_dim=32,
            num_attention_heads=2,
            head_dim=None,
            num_key_value_heads=None,
            intermediate_size=None,
            tie_word_embeddings=True,
        ),
        seed=5,
    ),
}


# Making


def distribution(name: str, key: str) -> tuple[float, float]:
    """Mean and standard deviation of a parameter. With attention less sharp, an embedding that outweighs
    the layers of a tied head, or large biases, greedy text soon repeats a few tokens."""
    if re.search(r"norm|\bln_", key) and key.endswith("weight"):
        mean = kAttentionGain if re.search(r"[qk]_norm", key) else 1.0
        return (mean - 1 if "gemma" in name else mean), 0.3  # Gemma multiplies by 1 + weight
    if key.endswith("bias"):
        return 0.0, 0.1
    if "embed" in key:
        return 0.0, 0.1
    is_query_or_key = re.search(r"\.(q|k|qkv)_proj\.|query_key_value\.", key)
    return 0.0, kWeightStd * (kAttentionGain if is_query_or_key else 1)


def randomize(network, name: str) -> None:
    """Draws every parameter anew from a stream that depends on names and seed alone."""
    import torch

    for key, parameter in network.named_parameters():
        stream = zlib.crc32(f"{name}/{key}/{kModels[name].seed}".encode())
        generator = torch.Generator().manual_seed(stream)
        mean, std = distribution(name, key)
        with torch.no_grad():
            parameter.copy_(mean + std * torch.randn(parameter.shape, generator=generator))


def save_hugging_face(name: str, folder: str) -> None:
    import torch
    import transformers

    options = {k: v for k, v in (kBase | kModels[name].options).items() if v is not None}
    config = getattr(transformers, kModels[name].config_class)(**options)
    network = transformers.AutoModelForCausalLM.from_config(config).to(torch.float32).eval()
    randomize(network, name)
    network.generation_config = transformers.GenerationConfig(
        bos_token_id=kBos, eos_token_id=kEos, pad_token_id=kPad
    )
    network.save_pretrained(folder)


def export(hugging_face: str, ir: str) -> None:
    from optimum.intel import OVModelForCausalLM

    model = OVModelForCausalLM.from_pretrained(
        hugging_face, export=True, load_in_8bit=False, compile=False
    )
    model.save_pretrained(ir)


def save_stripped(source: Path, target: Path) -> None:
    """Saves without what the exporter notes (versions, options, names of nodes, possibly paths);
    runtime_options stay, because the runtime obeys them."""
    model = ov.Core().read_model(source)
    for key in list(model.get_rt_info()):
        if key != "runtime_options":
            del model.get_rt_info()[key]
    ov.save_model(model, target, compress_to_fp16=False)


def squeeze(xml: str) -> str:
    """A smaller spelling of the same IR, one layer or edge per line: no indentation, and no types and
    shapes of input ports, which the reader takes from the outputs they are connected to."""
    xml = re.sub(r"\n\t\t\t+", "", xml)
    xml = re.sub(r"\n\t+", "\n", xml)

    def bare_ports(ports: re.Match) -> str:
        ids = re.findall(r'<port id="(\d+)"', ports[0])
        return "<input>" + "".join(f'<port id="{i}" />' for i in ids) + "</input>"

    return re.sub(r"<input>.*?</input>", bare_ports, xml)


def check_same_ir(left: Path, right: Path) -> None:
    """Both IRs are the same bytes once OpenVINO has written them anew."""
    with tempfile.TemporaryDirectory() as folder:
        for side, xml in (("left", left), ("right", right)):
            model = ov.Core().read_model(xml)
            ov.save_model(model, Path(folder, side + ".xml"), compress_to_fp16=False)
        for suffix in (".xml", ".bin"):
            if Path(folder, "left" + suffix).read_bytes() != Path(folder, "right" + suffix).read_bytes():
                raise RuntimeError(f"squeezing changed {left}")


def make(name: str) -> None:
    target = kHere / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        ir, stripped = Path(folder, "ir"), Path(folder, kXml)
        save_hugging_face(name, folder + "/hf")
        export(folder + "/hf", str(ir))
        save_stripped(ir / kXml, stripped)
        (target / kXml).write_text(squeeze(stripped.read_text()))
        shutil.copyfile(stripped.with_name(kBin), target / kBin)
        for file in kJsons:
            shutil.copyfile(ir / file, target / file)
        check_same_ir(stripped, target / kXml)


def make_all(names: list[str]) -> None:
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    # A fresh process for each: names of nodes count on from one model to the next.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name in names:
            pool.apply(make, (name,))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--check", action="store_true", help="check the models instead of making them")
    args = parser.parse_args()
    names = args.names or list(kModels)
    unknown = set(names) - set(kModels)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    if not args.check:
        make_all(names)
    return check_all(names)


if __name__ == "__main__":
    sys.exit(main())
