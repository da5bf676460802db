"""The chain computes what the whole model computes: tokens and logits over 1, 2, 3 and 5 processes,
and, in the profile exact, the same greedy text as OpenVINO GenAI on the same package."""

import functools
import unittest

import numpy as np
import openvino
import openvino_genai

import paceline_testing as testing

kPrompts = testing.kSourceDir / "tests/e2e/prompts.txt"
kTokens = 128
kStages = (1, 2, 3, 5)
kTie = 1e-3  # logits closer than this may be ordered either way by another kernel
kMinDistinct = 30
_common = ("--ignore-eos", "--temperature", "0", "--json", "--digests")


@functools.cache
def answers(profile: str, stages: int) -> list[dict]:
    outcome = testing.run(
        "generate", "-p", testing.smollm2_package(), "--prompts", kPrompts, "--chat", *_common,
        "--stages", stages, "--profile", profile, "-n", kTokens, "--ctx", 512, timeout=900,
    )  # fmt: skip
    return outcome.check().json()


def distinct_enough(tokens: list[int]) -> bool:
    return len(set(tokens)) >= kMinDistinct


class ChainIdentity(testing.TestCase):
    """Each profile by itself: `fast` may differ from `exact`, never from itself."""

    def check_profile(self, profile: str) -> None:
        whole = answers(profile, 1)
        self.assertEqual(len(whole), len(kPrompts.read_text().splitlines()))
        self.assertGreaterEqual(len(whole), 10)
        for index, answer in enumerate(whole):
            self.assertEqual(len(answer["tokens"]), kTokens)
            self.assertEqual(len(answer["logits_digests"]), kTokens)
            self.assertTrue(distinct_enough(answer["tokens"]), f"prompt {index} is degenerate")
        for stages in kStages[1:]:
            chain = answers(profile, stages)
            self.assertEqual(len({stage["process"] for stage in chain[0]["chain"]["stages"]}), stages)
            for index, (one, many) in enumerate(zip(whole, chain, strict=True)):
                with self.subTest(profile=profile, stages=stages, prompt=index):
                    self.assertEqual(one["tokens"], many["tokens"])
                    self.assertEqual(one["logits_digests"], many["logits_digests"])

    def test_fast(self):
        self.check_profile("fast")

    def test_exact(self):
        self.check_profile("exact")

    def test_profiles_differ(self):
        # Else the comparison above would compare one thing with itself.
        digests = [[a["logits_digests"] for a in answers(p, 1)] for p in ("fast", "exact")]
        self.assertNotEqual(digests[0], digests[1])


class Reference:
    """OpenVINO GenAI, and plain OpenVINO for logits, on the package that the chain runs."""

    def __init__(self, package):
        self._package = package
        self._pipeline = openvino_genai.LLMPipeline(str(package), "CPU", **testing.kExactProperties)

    def continue_greedily(self, tokens: list[int], count: int) -> list[int]:
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = count
        config.ignore_eos = True
        config.do_sample = False
        config.apply_chat_template = False
        result = self._pipeline.generate(openvino.Tensor(np.array([tokens], np.int64)), config)
        return list(result.tokens[0])

    @functools.cached_property
    def _request(self):
        core = openvino.Core()
        model = core.read_model(self._package / "openvino_model.xml")
        return core.compile_model(model, "CPU", testing.kExactProperties).create_infer_request()

    def best_two(self, tokens: list[int]) -> tuple[set[int], float]:
        """The two likeliest next tokens, and how far apart their logits are."""
        length = len(tokens)
        inputs = {
            "input_ids": np.array([tokens], np.int64),
            "attention_mask": np.ones((1, length), np.int64),
            "position_ids": np.arange(length, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        names = {name for port in self._request.model_inputs for name in port.names}
        self._request.reset_state()
        self._request.infer({k: v for k, v in inputs.items() if k in names})
        logits = self._request.get_tensor("logits").data[0, -1]
        best, second = np.argsort(logits)[::-1][:2]
        return {int(best), int(second)}, float(logits[best] - logits[second])


class GenAiIdentity(testing.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.reference = Reference(testing.smollm2_package())

    def continue_chain(self, tokens: list[int], count: int) -> list[int]:
        outcome = testing.run(
            "generate", "-p", testing.smollm2_package(), "--prompt-ids", ",".join(map(str, tokens)),
            *_common, "--stages", 2, "--profile", "exact", "-n", count, "--ctx", 512,
        )  # fmt: skip
        return outcome.check().json()[0]["tokens"]

    def compare(self, prompt: list[int], ours: list[int], theirs: list[int]) -> int:
        """Fails unless both agree but for ties; after a tie both go on from their token."""
        ties = 0
        at = 0
        while ours[at:] != theirs[at:]:
            at += next(i for i, (a, b) in enumerate(zip(ours[at:], theirs[at:])) if a != b)
            pair, distance = self.reference.best_two(prompt + theirs[:at])
            where = f"token {at}: the chain says {ours[at]}, GenAI {theirs[at]}; {distance:.1e} apart"
            self.assertEqual({ours[at], theirs[at]}, pair, where)
            self.assertLess(distance, kTie, where)
            print(f"a tie at {where}; going on from GenAI's")
            ties += 1
            at += 1
            if at == kTokens:
                break
            ours = theirs[:at] + self.continue_chain(prompt + theirs[:at], kTokens - at)
        return ties

    def test_greedy_text_is_the_same(self):
        for index, answer in enumerate(answers("exact", 1)):
            with self.subTest(prompt=index):
                prompt = answer["prompt_ids"]
                theirs = self.reference.continue_greedily(prompt, kTokens)
                self.assertEqual(len(theirs), kTokens)
                self.compare(prompt, answer["tokens"], theirs)

    def test_the_comparison_can_fail(self):
        prompt = answers("exact", 1)[0]["prompt_ids"]
        right = answers("exact", 1)[0]["tokens"]
        wrong = right[:5] + [(right[5] + 1) % 1000] + right[6:]
        with self.assertRaises(AssertionError):
            self.compare(prompt, wrong, right)


if __name__ == "__main__":
    unittest.main()
