#!/usr/bin/env python3
"""Reads published models with transformers and torch, which know nothing of Paceline. Runs in an environment
of its own (reference.py makes it).

  reference_reader.py tokens TOKENIZER.json TEXT OUT.npy       the text's token ids, int64
  reference_reader.py logits MODEL.gguf WINDOWS.npy OUT.npy    logits of windows [windows, length], f32
  reference_reader.py export MODEL.gguf DIRECTORY              a Hugging Face directory of the same weights, f32

A GGUF's blocks are decoded by the package gguf, its tensors named and its configuration read by
transformers. All is computed in f32. Logits are written window by window, and the head is applied to a few
rows at a time: a vocabulary of 262144 makes 1 MiB of each row.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer

kHeadRows = 128
kShardSize = "200MB"  # several parts and an index, as large models have them


def load(gguf: str):
    path = Path(gguf)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()


def write_tokens(tokenizer: str, text: str, out: str) -> None:
    encoding = Tokenizer.from_file(tokenizer).encode(
        Path(text).read_text(encoding="utf-8"), add_special_tokens=False
    )
    np.save(out, np.array(encoding.ids, np.int64))


def write_logits(gguf: str, windows: str, out: str) -> None:
    model = load(gguf)
    if getattr(model.config, "final_logit_softcapping", None):
        sys.exit(f"{gguf}: caps its logits, which this reader leaves out")
    ids = np.load(windows)
    head = model.get_output_embeddings()
    logits = np.lib.format.open_memmap(
        out, mode="w+", dtype=np.float32, shape=(*ids.shape, head.weight.shape[0])
    )
    with torch.inference_mode():
        for window, target in zip(ids, logits):
            hidden = model.model(input_ids=torch.from_numpy(window)[None], use_cache=False)[0][0]
            for first in range(0, len(window), kHeadRows):
                rows = slice(first, first + kHeadRows)
                target[rows] = head(hidden[rows]).numpy()
            logits.flush()


def export(gguf: str, directory: str) -> None:
    """The tokenizer's files are not written: take those of a package."""
    model = load(gguf)
    # The blocks were decoded; transformers would refuse to write what it remembers as quantized.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.save_pretrained(directory, max_shard_size=kShardSize)


if __name__ == "__main__":
    {"tokens": write_tokens, "logits": write_logits, "export": export}[sys.argv[1]](*sys.argv[2:])
