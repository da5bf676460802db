"""Every architecture of tests/golden/architectures as a package: openvino_genai runs it unchanged, one and
two stages answer alike, and all give the tokens that Hugging Face transformers gave. So do the models of
tests/golden/spellings, with experts in stacks and matrices in FP8."""

import functools
import json
import unittest
from pathlib import Path

import numpy as np
import openvino
import openvino_genai

import paceline_testing as testing
import tiny_hf

kGoldens = testing.kSourceDir / "tests/golden"
kNames = sorted(
    f"{folder}/{path.name}"
    for folder in ("architectures", "spellings")
    for path in (kGoldens / folder).iterdir()
)
# Their angles depend on the length, in a way that depends on how the prompt is fed; see
# docs/adding-an-architecture.md. The engines agree all the same.
kLengthDependent = ("architectures/llama_dynamic", "architectures/phi3")
kTokens = 64


def read(name: str, file: str):
    return json.loads((kGoldens / name / file).read_text())


def fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def drawn_numbers(key: str, shape: list) -> np.ndarray:
    with np.errstate(over="ignore"):
        x = np.uint64(fnv1a(key)) + np.arange(np.prod(shape), dtype=np.uint64)
        x += np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def drawn(key: str, shape: list, *spread) -> np.ndarray:
    """A tensor as tests/golden/make_architectures.py draws it, or make_spellings.py bytes of FP8."""
    x = drawn_numbers(key, shape)
    k = (x % np.uint64(127)).astype(np.int64)
    if spread == ("F8_E4M3",):
        signs = ((x >> np.uint64(32)) % np.uint64(2)).astype(np.int64)
        return (k + 128 * signs).astype(np.uint8).reshape(shape)
    center, step = spread
    return (center + step * (k - 63)).astype(np.float32).reshape(shape)


def tokenizer() -> dict:
    """As many tokens as the models have."""
    whole = tiny_hf.tokenizer()
    characters = list(whole["model"]["vocab"])[:kTokens]
    whole["model"] |= {"vocab": {token: place for place, token in enumerate(characters)}, "merges": []}
    whole["added_tokens"] = []
    return whole


@functools.cache
def package(name: str) -> Path:
    source = testing.temporary_directory() / f"golden-{Path(name).name}"
    source.mkdir()
    (source / "config.json").write_text((kGoldens / name / "config.json").read_text())
    (source / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (source / "tokenizer_config.json").write_text("{}")
    tensors = {entry[0]: drawn(*entry) for entry in read(name, "tensors.json")}
    tiny_hf.write_safetensors(source / "model.safetensors", tensors)
    target = testing.temporary_directory() / f"golden-package-{Path(name).name}"
    # FP8 would be kept in f16, which rounds its products with the scales.
    weights = "f32" if "fp8" in name else "keep"
    testing.run("compile", source, "-o", target, "--weights", weights).check()
    return target


class Architectures(testing.TestCase):
    def genai_tokens(self, name: str, prompt: list[int], count: int) -> list[int]:
        pipeline = openvino_genai.LLMPipeline(str(package(name)), "CPU", **testing.kExactProperties)
        config = pipeline.get_generation_config()
        config.max_new_tokens = count
        config.do_sample = False
        config.ignore_eos = True
        config.apply_chat_template = False
        ids = openvino.Tensor(np.array([prompt], np.int64))
        return list(pipeline.generate(ids, config).tokens[0])

    def own_tokens(self, name: str, prompt: list[int], count: int, stages: int) -> list[int]:
        outcome = testing.run(
            "generate", "-p", package(name), "--prompt-ids", ",".join(map(str, prompt)), "-n", count,
            "--stages", stages, "--ignore-eos", "--json", "--ctx", 128, "--profile", "exact",
        )  # fmt: skip
        return outcome.check().json()[0]["tokens"]

    def test_tokens_are_those_of_transformers(self):
        for name in kNames:
            with self.subTest(name):
                golden = read(name, "golden.json")
                prompt, expected = golden["input_ids"][0], golden["greedy"][0]
                theirs = self.genai_tokens(name, prompt, len(expected))
                for stages in (1, 2):
                    ours = self.own_tokens(name, prompt, len(expected), stages)
                    self.assertEqual(ours, theirs, stages)
                if name not in kLengthDependent:
                    self.assertEqual(theirs, expected)

    def test_the_configuration_is_the_sources(self):
        for name in kNames:
            self.assertEqual(
                json.loads((package(name) / "config.json").read_text()), read(name, "config.json")
            )


if __name__ == "__main__":
    unittest.main()
