"""Two published models of different architectures: each compiles from its GGUF, and its answers over 1, 2 and 4
processes are bitwise the same.

Gemma's file is 253 MB and is not among what scripts/setup installs: its tests are skipped where
`.venv/bin/python bench/models.py gemma3` (or scripts/bench quality) has not fetched it, and
PACELINE_GEMMA3_GGUF does not name it.
"""

import functools
import json
import os
import unittest
from pathlib import Path

import paceline_testing as testing

kStages = (1, 2, 4)
kTokens = 96
kMinDistinct = 30
# Several architectures, one tokenizer each: letters, digits, code, other scripts.
kPrompts = (
    "The lighthouse keeper had not spoken to anyone for eleven days when the boat came.",
    "def moving_average(values: list[float], width: int) -> list[float]:",
    "Die drei wichtigsten Gründe, warum Brot aufgeht, sind",
    "In 1905, 17 ships of 2,400 tons each left the harbour; 3 of them carried 日本茶 and",
)
_kLongPromptCharacters = 3600


def long_prompt() -> str:
    """More than 512 tokens, as far as Gemma's sliding attention sees."""
    text = (testing.kSourceDir / "bench/quality_text.txt").read_text(encoding="utf-8")
    return " ".join(text.split())[:_kLongPromptCharacters]


def gemma3_gguf() -> Path:
    given = os.environ.get("PACELINE_GEMMA3_GGUF")
    path = Path(given) if given else testing.kSourceDir / "build/bench/gemma-3-270m-q4_k_m.gguf"
    if not path.exists():
        raise unittest.SkipTest("Gemma 3's GGUF is not there (PACELINE_GEMMA3_GGUF)")
    return path


@functools.cache
def gemma3_package() -> Path:
    package = testing.temporary_directory() / "gemma3"
    testing.run("compile", gemma3_gguf(), "-o", package).check()
    return package


class PublishedModel:
    """What is asked of each; `layers` are those of the published model."""

    layers: int

    @classmethod
    def package(cls) -> Path:
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        cls.package()  # skips the class where the model is not there

    def answers(self, stages: int, profile: str) -> list[dict]:
        prompts = "\n".join([*kPrompts, long_prompt()]) + "\n"
        # Sampled: greedy text of a base model falls into a loop, which would compare little.
        outcome = testing.run(
            "generate", "-p", self.package(), "--prompts", "-", "--stages", stages, "--profile", profile,
            "--temperature", "0.8", "--seed", 11, "--ignore-eos", "-n", kTokens, "--ctx", 1536,
            "--json", "--digests", stdin=prompts.encode(), timeout=900,
        )  # fmt: skip
        return outcome.check().json()

    def check_chain(self, profile: str) -> None:
        whole = self.answers(1, profile)
        self.assertEqual(len(whole), len(kPrompts) + 1)
        self.assertGreater(len(whole[-1]["prompt_ids"]), 512)
        for index, answer in enumerate(whole):
            self.assertEqual(len(answer["logits_digests"]), kTokens)
            self.assertGreaterEqual(len(set(answer["tokens"])), kMinDistinct, f"prompt {index} is degenerate")
        for stages in kStages[1:]:
            chain = self.answers(stages, profile)
            self.assertEqual(len({stage["process"] for stage in chain[0]["chain"]["stages"]}), stages)
            for index, (one, many) in enumerate(zip(whole, chain, strict=True)):
                with self.subTest(profile=profile, stages=stages, prompt=index):
                    self.assertEqual(one["tokens"], many["tokens"])
                    self.assertEqual(one["logits_digests"], many["logits_digests"])

    def test_chain_fast(self):
        self.check_chain("fast")

    def test_chain_exact(self):
        self.check_chain("exact")

    def test_all_layers_are_there(self):
        outcome = testing.run("inspect", self.package(), "--json").check()
        self.assertEqual(json.loads(outcome.stdout)["layers"], self.layers)

    def test_it_knows_what_a_language_model_knows(self):
        # Wrong rotations, norms or masks still give text, but not this.
        outcome = testing.run(
            "generate", "-p", self.package(), "--prompt", "Paris is the capital of France. Rome is the capital of",
            "--stages", 2, "-n", 3, "--ctx", 128, "--quiet",
        )  # fmt: skip
        self.assertIn("Italy", outcome.check().stdout.decode())


class SmolLM2(PublishedModel, testing.TestCase):
    layers = 30

    @classmethod
    def package(cls) -> Path:
        return testing.smollm2_package()


class Gemma3(PublishedModel, testing.TestCase):
    layers = 18

    @classmethod
    def package(cls) -> Path:
        return gemma3_package()


if __name__ == "__main__":
    unittest.main()
