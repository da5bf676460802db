"""A draft model changes how many steps a text takes, never the text: in the profile `exact` tokens and the
bits of every logit are those without it, greedy and seeded, with the model as its own draft and with one
that knows nothing of it, for several requests at once and over two stages.
"""

import json
import random
import unittest
from pathlib import Path

import paceline_testing as testing

kTokens = 32
kVocabulary = 256
kSampling = {
    "greedy": ("--temperature", "0"),
    "seeded": ("--temperature", "0.9", "--seed", "7"),
    "penalties": ("--temperature", "0.8", "--seed", "3", "--frequency-penalty", "0.5"),
}


def prompts_file() -> Path:
    draw = random.Random(1)
    path = testing.temporary_directory() / "draft-prompts.txt"
    lengths = (1, 2, 9, 31, 32, 33, 70, 100)
    prompts = [[draw.randrange(kVocabulary) for _ in range(length)] for length in lengths]
    path.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    return path


def generate(sampling: str, *extra) -> list[dict]:
    outcome = testing.run(
        "generate", "-p", testing.tiny_package("qwen3"), "--prompts", prompts_file(), "--profile", "exact", "--json",
        "--digests", "--ignore-eos", "-n", kTokens, "--threads", 1, *kSampling[sampling], *extra,
    )  # fmt: skip
    return outcome.check().json()


def bits(answers: list[dict]) -> list[tuple]:
    return [(a["prompt_ids"], a["tokens"], a["logits_digests"]) for a in answers]


class Drafts(testing.TestCase):
    def check_same(self, sampling: str, draft: str, *extra) -> dict:
        """The chain's facts, once the answers are those without drafts."""
        expected = generate(sampling, "--speculation", "off")
        answers = generate(sampling, "--draft", testing.tiny_package(draft), "--speculation", "always", *extra)
        self.assertEqual(bits(answers), bits(expected))
        chain = answers[-1]["chain"]
        self.assertGreater(chain["draft"]["guesses"], kTokens)
        self.assertNotIn("failure", chain["draft"])
        return chain

    def test_the_model_as_its_own_draft_is_nearly_always_right(self):
        for sampling in kSampling:
            with self.subTest(sampling=sampling):
                work = self.check_same(sampling, "qwen3", "--drafts", 8)["work"]
                self.assertGreater(work["drafted_tokens"], 4 * kTokens)
                self.assertGreater(work["accepted_drafts"], 0.9 * work["drafted_tokens"])

    def test_many_at_once_over_two_stages(self):
        for sampling in ("greedy", "seeded"):
            for ahead in (0, 2):
                with self.subTest(sampling=sampling, ahead=ahead):
                    work = self.check_same(
                        sampling, "qwen3", "--stages", 2, "--parallel", 8, "--drafts-ahead", ahead, "--drafts", 4
                    )["work"]
                    self.assertGreater(work["accepted_drafts"], 0.6 * work["drafted_tokens"])

    def test_a_model_that_knows_nothing_of_it(self):
        for sampling in ("greedy", "seeded"):
            with self.subTest(sampling=sampling):
                work = self.check_same(sampling, "llama_tied", "--parallel", 3, "--drafts", 5)["work"]
                self.assertLess(work["accepted_drafts"], work["drafted_tokens"])

    def test_speculation_is_auto_where_a_draft_is_named(self):
        answers = generate("greedy", "--draft", testing.tiny_package("qwen3"))
        self.assertEqual(bits(answers), bits(generate("greedy")))
        self.assertIn("draft", answers[-1]["chain"])

    def check_refused(self, message: str, *arguments) -> None:
        outcome = testing.run("generate", "--prompt-ids", "1,2", *arguments)
        self.assertEqual(outcome.code, 2, outcome.stderr)
        self.assertIn(message, outcome.stderr)
        self.assertEqual(outcome.stdout, b"")

    def test_other_vocabularies_are_refused(self):
        tiny = testing.tiny_package("qwen3")
        other = testing.temporary_directory() / "other-vocabulary"
        if not other.exists():
            manifest = json.loads((tiny / "paceline.json").read_text())
            manifest["vocabulary_size"] = 300
            other.mkdir()
            (other / "paceline.json").write_text(json.dumps(manifest))
        self.check_refused("300 tokens, the model one of 256", "-p", tiny, "--draft", other)
        self.check_refused("none: no such directory", "-p", tiny, "--draft", testing.temporary_directory() / "none")
        self.check_refused("--draft needs --speculation", "-p", tiny, "--draft", tiny, "--speculation", "off")


if __name__ == "__main__":
    unittest.main()
