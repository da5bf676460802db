#!/usr/bin/env python3
"""Makes the golden files of the tokenizer tests, with llama.cpp as the independent reader.

usage: make_tokenizer_golden.py SMOLLM2.gguf      (pip install gguf llama-cpp-python)

Writes beside itself:
  vocabulary_bpe.json            a byte-level BPE vocabulary, trained here on the sentences below
  vocabulary_sentencepiece.json  a SentencePiece BPE vocabulary with scores, likewise
  tokenizer_golden.json          texts and the ids that llama.cpp gives them, for those two
                                 vocabularies and for SmolLM2's, under each pre-tokenizer

Texts on which llama.cpp is known to leave a model's own tokenizer are not here: it does no NFC for
qwen2, and its "default" pattern is none of a published model.
"""

import collections
import json
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
SPACE = "\u2581"

SENTENCES = """
The riders change places in the wind, and the one in front goes to the back of the line.
Each of them holds a part of the model; none of them holds the whole of it.
When the first stage has done its work, the second stage takes what it has made.
There is a house at the end of the road where nobody has lived for three hundred years.
for (int i = 0; i < 10; ++i) { total += values[i]; }  // the sum of the values
def read_line(path): return path.read_text().split("\\n")[0]
Die Fahrer wechseln sich im Wind ab, und wer vorne war, geht nach hinten.
It's what we'd want, isn't it? They've said they'll come, and I'm sure you're there.
In 1989, 2024 and 31415926535 there were 12 of them, 365 days long, at 3.14 each.
"""

TEXTS = [
    "",
    " ",
    "a",
    "Hello world",
    " Hello  world ",
    "Hello, World! How are you today?",
    "It's what we'd want, isn't it? THEY'VE SAID THEY'LL COME, I'M SURE.",
    "for (int i = 0; i < 10; ++i) {\n\ttotal += values[i];\n}\n",
    "def f(x):\n    return x ** 2\n\n\nprint(f(12))  # 144\n",
    "#include <vector>\r\nint main() {\r\n  return 0;\r\n}\r\n",
    "1234567890",
    "In 1989 there were 31415926535 of 12, at 3.14 each: 1,000,000.00",
    "x1y22z333w4444",
    "\u00bd \u00b2 \u0663\u0664\u0665 \u2167",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u4eca\u5929\u662f2024\u5e741\u67081\u65e5\u3002",
    "\u3053\u3093\u306b\u3061\u306f\u3001\u4e16\u754c\uff01\u30c6\u30b9\u30c8\u3067\u3059\u3002",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea!",
    "naïve café, Straße, ÅNGSTRÖM, façade",
    "Привет, мир! Γειά σου Κόσμε. שלום עולם مرحبا",
    "हिन्दी में लिखा हुआ। ไทย",
    "   leading and trailing   ",
    "tabs\tand\t\ttabs \t mixed",
    "\n\n\n",
    "a\n\n b\n  c\r\n\r\n d \n",
    "one\u00a0two\u3000three\u2003four",
    "...!!!??? --- ### $$$ %%% @@@",
    "https://example.org/a/b?c=d&e=f#g user@example.org",
    "{\"key\": [1, 2.5, null, true], \"text\": \"\\u00e4\"}",
    "\u201cquoted\u201d \u2018single\u2019 \u2014 dash \u2026",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "The riders change places in the wind, and the one in front goes to the back of the line.",
    "control \u0000 \u0001 \u0007 \u001b[0m bytes \u007f",
    "$x^2 + y^2 = z^2$ and \\frac{a}{b} \u2211 \u222b \u221e",
    "camelCaseWord snake_case_word kebab-case-word SCREAMING_CASE",
]

BPE_SPECIAL = [
    "<|im_start|>user\nHello there<|im_end|>\n<|im_start|>assistant\n",
    "a<|im_end|>b <|im_end|> c",
    "call <tool> now<tool>x",
]

SENTENCEPIECE_SPECIAL = [
    "<s>user: Hello</s> and <s> more",
    "call <tool> now<tool>x",
]


def byte_characters():
    """The printable character that byte-level BPE writes for each byte."""
    printable = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters = {byte: chr(byte) for byte in printable}
    others = [byte for byte in range(256) if byte not in characters]
    characters.update({byte: chr(256 + place) for place, byte in enumerate(others)})
    return [characters[byte] for byte in range(256)]


def train(words, count):
    """The first `count` merges of plain BPE over a Counter of tuples of symbols."""
    merges = []
    for _ in range(count):
        pairs = collections.Counter()
        for word, times in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += times
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        merged = collections.Counter()
        for word, times in words.items():
            symbols, place = [], 0
            while place < len(word):
                joined = word[place : place + 2] == best
                symbols.append("".join(best) if joined else word[place])
                place += 2 if joined else 1
            merged[tuple(symbols)] += times
        words = merged
    return merges


def bpe_vocabulary():
    characters = byte_characters()
    pieces = re.findall(r" ?\w+| ?[^\s\w]+|\s+", SENTENCES)
    words = collections.Counter(tuple(characters[b] for b in piece.encode()) for piece in pieces)
    merges = train(words, 300)
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = [*control, *characters, *dict.fromkeys("".join(pair) for pair in merges), "<tool>"]
    types = [CONTROL] * 3 + [NORMAL] * (len(tokens) - 4) + [USER_DEFINED]
    return {
        "model": "gpt2", "tokens": tokens, "token_types": types,
        "merges": [" ".join(pair) for pair in merges], "scores": [],
        "bos_id": 1, "eos_id": 2, "unknown_id": -1,
    }


def sentencepiece_vocabulary():
    pieces = re.findall(r" ?[^\s]+", SENTENCES.replace("\n", " "))
    words = collections.Counter(tuple(piece.replace(" ", SPACE)) for piece in pieces)
    joined = list(dict.fromkeys("".join(pair) for pair in train(words, 250)))
    letters = sorted({letter for word in words for letter in word} | {SPACE})
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    scores = [0.0] * len(tokens)
    for rank, token in enumerate(joined + letters):
        tokens.append(token)
        types.append(NORMAL)
        scores.append(-float(rank))
    return {
        "model": "llama", "tokens": tokens + ["<tool>"], "token_types": types + [USER_DEFINED],
        "merges": [], "scores": scores + [0.0], "bos_id": 1, "eos_id": 2, "unknown_id": 0,
    }


def smollm2_vocabulary(path):
    import gguf

    fields = gguf.GGUFReader(path).fields
    field = lambda name: fields["tokenizer.ggml." + name].contents()
    return {
        "model": field("model"), "tokens": field("tokens"), "token_types": field("token_type"),
        "merges": field("merges"), "scores": [], "bos_id": field("bos_token_id"),
        "eos_id": field("eos_token_id"), "unknown_id": field("unknown_token_id"),
    }


def write_gguf(path, vocabulary, settings):
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(vocabulary["model"])
    if settings.get("pre"):
        writer.add_tokenizer_pre(settings["pre"])
    writer.add_token_list(vocabulary["tokens"])
    writer.add_token_types(vocabulary["token_types"])
    if vocabulary["merges"]:
        writer.add_token_merges(vocabulary["merges"])
    if vocabulary["scores"]:
        writer.add_token_scores(vocabulary["scores"])
        writer.add_add_space_prefix(settings["add_space_prefix"])
    writer.add_bos_token_id(vocabulary["bos_id"])
    writer.add_eos_token_id(vocabulary["eos_id"])
    if vocabulary["unknown_id"] >= 0:
        writer.add_unk_token_id(vocabulary["unknown_id"])
    writer.add_add_bos_token(settings["add_bos"])
    writer.add_add_eos_token(settings["add_eos"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def golden(name, vocabulary, settings, texts):
    """One group of the golden file: settings, and each text with llama.cpp's ids."""
    import llama_cpp

    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "vocabulary.gguf"
        write_gguf(path, vocabulary, settings)
        llama = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        cases = [
            {"text": text, "ids": llama.tokenize(text.encode(), add_bos=True, special=True)}
            for text in texts
        ]
    return {"vocabulary": name, **settings, "cases": cases}


def main():
    bpe, pieces = bpe_vocabulary(), sentencepiece_vocabulary()
    smollm2 = smollm2_vocabulary(sys.argv[1])
    off = {"add_bos": False, "add_eos": False}
    groups = []
    for pre in ("smollm", "gpt-2", "llama-bpe", "qwen2"):
        settings = {"pre": pre, **off}
        groups.append(golden("smollm2", smollm2, settings, TEXTS + BPE_SPECIAL[:2]))
        groups.append(golden("bpe", bpe, settings, TEXTS + BPE_SPECIAL))
    groups.append(golden("bpe", bpe, {"pre": "gpt-2", "add_bos": True, "add_eos": True}, TEXTS[:4]))
    for prefix in (True, False):
        for add in (True, False):
            settings = {"add_space_prefix": prefix, "add_bos": add, "add_eos": False}
            texts = TEXTS + SENTENCEPIECE_SPECIAL
            groups.append(golden("sentencepiece", pieces, settings, texts))
    for name, value in (("vocabulary_bpe", bpe), ("vocabulary_sentencepiece", pieces)):
        (HERE / f"{name}.json").write_text(json.dumps(value, separators=(",", ":")) + "\n")
    lines = ",\n".join(json.dumps(group, separators=(",", ":")) for group in groups)
    (HERE / "tokenizer_golden.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
