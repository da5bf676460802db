#!/usr/bin/env python3
"""Makes hf_tokenizer_golden.json, with Hugging Face's tokenizers as the reference.

usage: make_hf_tokenizer_golden.py [SMOLLM2.gguf GEMMA3.gguf]   (pip install tokenizers gguf)

For each family, the ids of every entry of tokenizer_corpus.json. The families' rules are those of
hf_reference.py. Vocabularies: two small ones that are made here, and those of the two GGUFs.
  vocabulary_crossing.json  byte-level BPE whose merges cross words, digits and line breaks: so a
                            boundary in the wrong place changes the ids
  vocabulary_gemma.json     SentencePiece pieces with Gemma's whitespace and HTML tokens, as a GGUF
                            spells them
Without the GGUFs their groups are taken over from the golden file as they are.
"""

import collections
import json
import pathlib
import re
import sys

import hf_reference
from hf_reference import SPACE
from make_tokenizer_golden import SENTENCES, byte_characters, train

HERE = pathlib.Path(__file__).parent
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
GOLDEN = HERE / "hf_tokenizer_golden.json"


def corpus():
    entries = json.loads((HERE / "tokenizer_corpus.json").read_text())
    return [
        entry["text"] if "text" in entry
        else bytes.fromhex(entry["bytes"]).decode("utf-8", "replace")
        for entry in entries
    ]  # fmt: skip


def crossing_vocabulary(texts):
    """Trained on whole lines; those with special tokens would give them a second time."""
    characters = byte_characters()
    lines = [text for text in texts + SENTENCES.split("\n") if len(text) < 120]
    lines = [line for line in lines if not re.search("<[|/]?s|<[|a-z]", line)]
    words = collections.Counter(tuple(characters[b] for b in line.encode()) for line in lines)
    merges = train(words, 900)
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|user|>", "<|end|>", "<s>"]
    tokens = [*control, *characters, *dict.fromkeys("".join(pair) for pair in merges), "<tool>"]
    types = [CONTROL] * len(control) + [NORMAL] * (len(tokens) - len(control) - 1) + [USER_DEFINED]
    return {
        "model": "gpt2", "tokens": tokens, "token_types": types, "scores": [],
        "merges": [" ".join(pair) for pair in merges], "bos_id": 5, "eos_id": 2, "unknown_id": -1,
    }  # fmt: skip


def gemma_vocabulary(texts):
    words = collections.Counter(
        tuple(line.replace(" ", SPACE)) for line in texts + SENTENCES.split("\n") if len(line) < 120
    )
    pieces = list(dict.fromkeys("".join(pair) for pair in train(words, 500)))
    letters = sorted({letter for word in words for letter in word} | {SPACE})[:300]
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    types = [CONTROL] * 3 + [UNKNOWN] + [CONTROL] * 2
    own = ["\n" * n for n in range(1, 9)] + [" " * n for n in range(2, 9)]
    own += ["<table>", "<td>", "</td>", "</table>", "<h1>", "<code>"] + ["\t", "\t\t", "\t\t\t"]
    tokens, types = tokens + own, types + [USER_DEFINED] * len(own)
    scores = [-1000.0] * len(tokens)
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    types, scores = types + [BYTE] * 256, scores + [0.0] * 256
    known = set(tokens) | {SPACE * n for n in range(2, 9)}
    normal = [piece for piece in pieces + letters if piece not in known]
    return {
        "model": "llama", "tokens": tokens + normal, "token_types": types + [NORMAL] * len(normal),
        "merges": [], "scores": scores + [-float(rank) for rank in range(len(normal))],
        "bos_id": 2, "eos_id": 1, "unknown_id": 3,
    }  # fmt: skip


def phi_strips(family, token):
    if family == "phi-4":
        return {"lstrip": True, "rstrip": True}
    base = token in ("<unk>", "<s>", "<|endoftext|>")
    return {"rstrip": not base} if family.startswith("phi") else {}


def reference_of(vocabulary, settings):
    """The reference tokenizer of a GGUF's vocabulary."""
    family, tokens, types = settings["family"], vocabulary["tokens"], vocabulary["token_types"]
    scores = vocabulary["scores"]
    if family == "gemma":
        tokens = [SPACE * len(t) if t and not t.strip(" ") else t for t in tokens]
        # As the model itself has it: user-defined pieces score 0.
        scores = [0.0 if kind == USER_DEFINED else s for s, kind in zip(scores, types)]
    vocab = {token: place for place, token in enumerate(tokens)}
    added = [
        hf_reference.added(place, tokens[place], kind != USER_DEFINED,
                           **phi_strips(family, tokens[place]))
        for place, kind in enumerate(types) if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]  # fmt: skip
    bos = tokens[vocabulary["bos_id"]] if settings["bos"] else None
    if vocabulary["model"] == "gpt2":
        merges = [merge.split(" ") for merge in vocabulary["merges"]]
        rules = hf_reference.BYTE_LEVEL[settings["pre"]]
        return hf_reference.build(rules, vocab, merges, added, bos)
    rules = hf_reference.SENTENCEPIECE["gemma" if family == "gemma" else "llama"]
    merges = hf_reference.score_merges(list(zip(tokens, scores)))
    return hf_reference.build(rules, vocab, merges, added, bos, tokens[vocabulary["unknown_id"]])


def group(name, vocabulary, settings, texts):
    tokenizer = reference_of(vocabulary, settings)
    ids = [tokenizer.encode(text).ids for text in texts]
    return {"vocabulary": name, **settings, "ids": ids}


def gguf_vocabulary(path):
    import gguf

    fields = gguf.GGUFReader(path).fields
    field = lambda name, missing=None: (
        fields["tokenizer.ggml." + name].contents() if "tokenizer.ggml." + name in fields
        else missing)  # fmt: skip
    return {
        "model": field("model"), "tokens": field("tokens"), "token_types": field("token_type"),
        "merges": field("merges", []), "scores": field("scores", []),
        "bos_id": field("bos_token_id"), "eos_id": field("eos_token_id"),
        "unknown_id": field("unknown_token_id", -1),
    }  # fmt: skip


def published_groups(texts):
    if len(sys.argv) == 3:
        smollm2, gemma = map(gguf_vocabulary, sys.argv[1:])
        yield group("smollm2", smollm2, settings("smollm", "llama", pre="smollm"), texts)
        yield group("gemma3", gemma, settings("gemma", "gemma3", bos=True), texts)
    elif GOLDEN.exists():
        small = ("crossing", "pieces", "gemma")
        yield from (old for old in json.loads(GOLDEN.read_text()) if old["vocabulary"] not in small)


def settings(family, architecture, pre="default", bos=False):
    return {"family": family, "architecture": architecture, "pre": pre, "bos": bos}


def main():
    texts = corpus()
    crossing, gemma = crossing_vocabulary(texts), gemma_vocabulary(texts)
    pieces = json.loads((HERE / "vocabulary_sentencepiece.json").read_text())
    groups = [
        group("crossing", crossing, settings(family, arch, pre, bos), texts)
        for family, arch, pre, bos in [
            ("gpt2", "gpt2", "gpt-2", False), ("smollm", "llama", "smollm", False),
            ("granite", "granite", "refact", False), ("llama3", "llama", "llama-bpe", True),
            ("olmo2", "olmo2", "dbrx", False), ("phi-4", "phi3", "dbrx", False),
            ("phi-4-mini", "phi3", "gpt-4o", False), ("qwen", "qwen3", "qwen2", False),
            ("mistral", "llama", "tekken", True), ("deepseek", "deepseek2", "deepseek-v3", True),
        ]
    ]  # fmt: skip
    groups.append(group("pieces", pieces, settings("llama2", "llama", bos=True), texts))
    groups.append(group("pieces", pieces, settings("phi-3", "phi3", bos=True), texts))
    groups.append(group("gemma", gemma, settings("gemma", "gemma2", bos=True), texts))
    groups += published_groups(texts)
    for name, value in (("crossing", crossing), ("gemma", gemma)):
        text = json.dumps(value, separators=(",", ":"))
        (HERE / f"vocabulary_{name}.json").write_text(text + "\n")
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in groups)
    GOLDEN.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
