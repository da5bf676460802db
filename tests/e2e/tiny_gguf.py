"""Writes a GGUF of a very small Llama byte by byte, so that tests can write wrong ones, too.

The gguf package refuses to write most of what is wrong here. Values are (type, value) as in the
format; nothing is checked.
"""

import dataclasses
import struct
from pathlib import Path

kU32, kF32, kBool, kString, kArray, kU64 = 4, 6, 7, 8, 9, 10
kTensorF32, kTensorQ5K = 0, 13
kHidden, kFfn, kLayers, kHeads, kKvHeads = 64, 128, 2, 2, 1
_kFormats = {kU32: "<I", kF32: "<f", kBool: "<?", kU64: "<Q"}


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def value(kind: int, content) -> bytes:
    if kind == kString:
        return string(content)
    if kind == kArray:
        element, items = content
        head = struct.pack("<IQ", element, len(items))
        return head + b"".join(value(element, item) for item in items)
    return struct.pack(_kFormats[kind], content)


def byte_characters() -> list[str]:
    """GPT-2's printable stand-ins for the bytes 0 to 255."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in plain}
    rest = (byte for byte in range(256) if byte not in table)
    table.update({byte: chr(256 + place) for place, byte in enumerate(rest)})
    return [table[byte] for byte in range(256)]


@dataclasses.dataclass
class Tensor:
    dimensions: list[int]  # the innermost first, as in the file
    type: int = kTensorF32
    offset: int | None = None  # None: where it belongs

    def elements(self) -> int:
        count = 1
        for dimension in self.dimensions:
            count *= dimension
        return count


class TinyGguf:
    """A right file until something is changed."""

    def __init__(self):
        tokens = [*byte_characters(), "ab", "<s>", "</s>"]
        self.metadata = {
            "general.architecture": (kString, "llama"),
            "general.name": (kString, "tiny"),
            "llama.block_count": (kU32, kLayers),
            "llama.context_length": (kU32, 256),
            "llama.embedding_length": (kU32, kHidden),
            "llama.feed_forward_length": (kU32, kFfn),
            "llama.attention.head_count": (kU32, kHeads),
            "llama.attention.head_count_kv": (kU32, kKvHeads),
            "llama.attention.layer_norm_rms_epsilon": (kF32, 1e-5),
            "tokenizer.ggml.model": (kString, "gpt2"),
            "tokenizer.ggml.pre": (kString, "gpt-2"),
            "tokenizer.ggml.tokens": (kArray, (kString, tokens)),
            "tokenizer.ggml.token_type": (kArray, (kU32, [1] * 257 + [3, 3])),
            "tokenizer.ggml.merges": (kArray, (kString, ["a b"])),
            "tokenizer.ggml.bos_token_id": (kU32, 257),
            "tokenizer.ggml.eos_token_id": (kU32, 258),
        }
        kv = kHidden // kHeads * kKvHeads
        self.tensors = {"token_embd.weight": Tensor([kHidden, len(tokens)])}
        for layer in range(kLayers):
            shapes = {
                "attn_norm": [kHidden], "attn_q": [kHidden, kHidden], "attn_k": [kHidden, kv],
                "attn_v": [kHidden, kv], "attn_output": [kHidden, kHidden], "ffn_norm": [kHidden],
                "ffn_gate": [kHidden, kFfn], "ffn_up": [kHidden, kFfn], "ffn_down": [kFfn, kHidden],
            }  # fmt: skip
            for name, shape in shapes.items():
                self.tensors[f"blk.{layer}.{name}.weight"] = Tensor(shape)
        self.tensors["output_norm.weight"] = Tensor([kHidden])
        self.magic, self.version = b"GGUF", 3
        self.tensor_count = self.metadata_count = None  # None: what there is

    def encode(self) -> bytes:
        counts = [
            len(self.tensors) if self.tensor_count is None else self.tensor_count,
            len(self.metadata) if self.metadata_count is None else self.metadata_count,
        ]
        out = self.magic + struct.pack("<IQQ", self.version, *counts)
        for key, (kind, content) in self.metadata.items():
            out += string(key) + struct.pack("<I", kind) + value(kind, content)
        data_bytes = 0
        for name, tensor in self.tensors.items():
            rank = len(tensor.dimensions)
            offset = data_bytes if tensor.offset is None else tensor.offset
            out += string(name) + struct.pack(f"<I{rank}Q", rank, *tensor.dimensions)
            out += struct.pack("<IQ", tensor.type, offset)
            if tensor.elements() < 1 << 20:
                data_bytes += (4 * tensor.elements() + 31) // 32 * 32
        out += bytes(-len(out) % 32)
        # Small numbers that differ; their values do not matter here.
        floats = ((i * 37 % 101 - 50) / 400 for i in range(data_bytes // 4))
        return out + struct.pack(f"<{data_bytes // 4}f", *floats)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.encode())
        return path
