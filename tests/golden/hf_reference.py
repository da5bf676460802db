"""The tokenizer.json rules of each family as published, for Hugging Face's tokenizers.

The reference side of the tokenizer tests: it shares nothing with src/text. Vocabularies are passed
in; what is here is what surrounds them in the published files.
"""

import json

import tokenizers

SPACE = "\u2581"
GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]
NAMES = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
            "use_regex": use_regex}  # fmt: skip


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def sequence(kind, *parts):
    return {"type": "Sequence", NAMES[kind]: list(parts)}


def pre(*parts):
    return sequence("pre_tokenizer", *parts)


DIGITS = pre({"type": "Digits", "individual_digits": True}, byte_level(True))
# name: normalizer, pre_tokenizer, ignore_merges
BYTE_LEVEL = {
    "gpt-2": (None, byte_level(True), False),
    "smollm": (None, DIGITS, False),
    "refact": (None, DIGITS, False),
    "llama-bpe": (None, pre(split(GPT4), byte_level(False)), True),
    # dbrx and gpt-4o are published as splits that remove what lies between the matches.
    "dbrx": (None, pre(split(GPT4, "Removed", True), byte_level(False)), False),
    "gpt-4o": (None, pre(split(GPT4O, "Removed", True), byte_level(False)), False),
    "qwen2": ({"type": "NFC"}, pre(split(QWEN2), byte_level(False)), False),
    "tekken": (None, pre(split(TEKKEN), byte_level(False)), True),
    "deepseek-v3": (sequence("normalizer"),
                    pre(*map(split, DEEPSEEK_V3), byte_level(False)), False),
}  # fmt: skip


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
FALLBACK = [{"type": "ByteFallback"}, {"type": "Fuse"}]
# name: normalizer, pre_tokenizer, decoder
SENTENCEPIECE = {
    "llama": (
        sequence("normalizer", {"type": "Prepend", "prepend": SPACE}, replace(" ", SPACE)),
        None,
        sequence("decoder", replace(SPACE, " "), *FALLBACK, STRIP),
    ),
    "gemma": (
        replace(" ", SPACE),
        {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
         "invert": False},
        sequence("decoder", replace(SPACE, " "), *FALLBACK),
    ),
}  # fmt: skip


def score_merges(scores):
    """Merges as Hugging Face's converters derive them from SentencePiece's (piece, score) list."""
    ids = {piece: place for place, (piece, _) in enumerate(scores)}
    merges = []
    for piece, score in scores:
        splits = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        splits = [pair for pair in splits if pair[0] in ids and pair[1] in ids]
        splits.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        merges += [(score, pair) for pair in splits]
    merges.sort(key=lambda item: item[0], reverse=True)
    return [list(pair) for _, pair in merges]


def added(token_id, content, special=True, lstrip=False, rstrip=False):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": lstrip,
            "rstrip": rstrip, "normalized": False, "special": special}  # fmt: skip


def bos_template(token, token_id):
    if token is None:
        return None
    special = {"SpecialToken": {"id": token, "type_id": 0}}
    sequences = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    return {
        "type": "TemplateProcessing",
        "single": [special, sequences[0]],
        "pair": [special, *sequences],
        "special_tokens": {token: {"id": token, "ids": [token_id], "tokens": [token]}},
    }


def build(rules, vocab, merges, added_tokens, bos=None, unk=None):
    """A tokenizers.Tokenizer; `rules` is a row of BYTE_LEVEL or SENTENCEPIECE."""
    is_pieces = not isinstance(rules[2], bool)
    model = {
        "type": "BPE", "dropout": None, "unk_token": unk, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": is_pieces, "byte_fallback": is_pieces,
        "ignore_merges": False if is_pieces else rules[2], "vocab": vocab, "merges": merges,
    }  # fmt: skip
    decoder = rules[2] if is_pieces else byte_level(True)
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens,
        "normalizer": rules[0], "pre_tokenizer": rules[1], "decoder": decoder, "model": model,
        "post_processor": bos_template(bos, vocab.get(bos)) if bos else None,
    }  # fmt: skip
    return tokenizers.Tokenizer.from_str(json.dumps(document))
