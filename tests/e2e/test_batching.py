"""Whatever else is computed with it, a request gets what it gets alone: the same tokens and the same
bits of every logit, in the profile `exact`.

Random combinations of stages, requests at a time, rows per step, speculation and KV memory (so little
that sequences are preempted), greedy and seeded, with prompts that share beginnings. The seed is
PACELINE_BATCHING_SEED, printed with a failure.
"""

import dataclasses
import functools
import json
import os
import random
import unittest
from pathlib import Path

import paceline_testing as testing

kSeed = int(os.environ.get("PACELINE_BATCHING_SEED", "1"))
kRuns = int(os.environ.get("PACELINE_BATCHING_RUNS", "8"))
kTokens = 40
kPrompts = 18
kMinDistinct = 30
kSampling = {"greedy": ("--temperature", "0"), "seeded": ("--temperature", "0.9", "--seed", "7")}


@dataclasses.dataclass(frozen=True)
class Setup:
    """How the chain computes; nothing of it may show."""

    stages: int = 1
    parallel: int = 1
    step_tokens: int = 512
    speculation: str = "off"
    drafts_ahead: int = 0
    is_short_of_memory: bool = False


@dataclasses.dataclass(eq=False)
class Model:
    name: str
    package: Path
    vocabulary: int

    def prompts(self) -> list[list[int]]:
        """Some share beginnings, some repeat themselves (there is something to guess), and one is a
        single token."""
        draw = random.Random(kSeed)
        token = lambda: draw.randrange(self.vocabulary)  # noqa: E731
        shared = [token() for _ in range(70)]
        pattern = [token() for _ in range(9)]
        prompts = [[token()]]
        while len(prompts) < kPrompts:
            kind = draw.randrange(3)
            length = draw.randrange(2, 120)
            if kind == 0:
                prompts.append([token() for _ in range(length)])
            elif kind == 1:
                prompts.append(shared[: draw.randrange(33, 71)] + [token() for _ in range(length)])
            else:
                prompts.append((pattern * 20)[:length])
        return prompts

    @functools.cached_property
    def prompts_file(self) -> Path:
        path = testing.temporary_directory() / f"{self.name}-prompts.txt"
        path.write_text("".join(json.dumps(prompt) + "\n" for prompt in self.prompts()))
        return path

    def generate(self, prompts: Path, sampling: str, setup: Setup, *extra) -> list[dict]:
        outcome = testing.run(
            "generate", "-p", self.package, "--prompts", prompts, "--profile", "exact", "--json",
            "--digests", "--ignore-eos", "-n", kTokens, *kSampling[sampling],
            "--stages", setup.stages, "--parallel", setup.parallel,
            "--step-tokens", setup.step_tokens, "--speculation", setup.speculation,
            "--drafts-ahead", setup.drafts_ahead, *extra,
            timeout=900,
        )  # fmt: skip
        return outcome.check().json()

    @functools.cache  # noqa: B019
    def alone(self, sampling: str) -> list[dict]:
        """Each prompt by itself with nothing in the cache: one of the orders has it so."""
        lines = self.prompts_file.read_text().splitlines(keepends=True)
        turned = self.prompts_file.with_suffix(".turned")
        turned.write_text("".join(reversed(lines)))
        forwards = self.generate(self.prompts_file, sampling, Setup())
        backwards = self.generate(turned, sampling, Setup())[::-1]
        chosen = []
        for one, other in zip(forwards, backwards, strict=True):
            assert bits(one) == bits(other), "prefix reuse changes what is computed"
            chosen.append(one if one["reused_tokens"] == 0 else other)
        return chosen

    def little_memory(self) -> int:
        """KV for 256 tokens: one request fits, three do not."""
        chain = self.alone("greedy")[0]["chain"]
        return 256 * sum(stage["kv_bytes"] for stage in chain["stages"]) // chain["kv_tokens"]


def bits(answer: dict) -> tuple:
    return answer["prompt_ids"], answer["tokens"], answer["logits_digests"]


def setups(stages: tuple[int, ...]) -> list[tuple[str, Setup]]:
    """Random ones; the last two have what must not be missing."""
    draw = random.Random(kSeed)
    chosen = []
    for run in range(kRuns):
        setup = Setup(
            stages=draw.choice(stages),
            parallel=draw.choice((2, 5, 18)),
            step_tokens=draw.choice((7, 32, 64, 512)),
            speculation=draw.choice(("off", "always")),
            drafts_ahead=draw.choice((0, 0, 2)),
            is_short_of_memory=draw.random() < 0.4,
        )
        chosen.append((("greedy", "seeded")[run % 2], setup))
    chosen.append(("greedy", Setup(stages[-1], 18, 5, "always", 0, True)))
    chosen.append(("seeded", Setup(stages[-1], 3, 64, "always", 2)))
    return chosen


class Batching(testing.TestCase):
    def check(self, model: Model, stages: tuple[int, ...]) -> None:
        for sampling in kSampling:
            answers = model.alone(sampling)
            self.assertEqual(len(answers), kPrompts)
            self.assertTrue(all(len(a["tokens"]) == len(a["logits_digests"]) == kTokens for a in answers))
            self.assertGreaterEqual(len({t for a in answers for t in a["tokens"]}), kMinDistinct)
            self.assertTrue(any(a["reused_tokens"] == 0 for a in answers))
        work = {"preemptions": 0, "accepted_drafts": 0, "wasted_rows": 0, "reused_tokens": 0}
        for sampling, setup in setups(stages):
            extra = ("--kv-memory", model.little_memory()) if setup.is_short_of_memory else ()
            answers = model.generate(model.prompts_file, sampling, setup, *extra)
            with self.subTest(model=model.name, seed=kSeed, sampling=sampling, setup=setup):
                for number, (one, many) in enumerate(zip(model.alone(sampling), answers, strict=True)):
                    self.assertEqual(one["tokens"], many["tokens"], f"prompt {number}")
                    self.assertEqual(one["logits_digests"], many["logits_digests"], f"prompt {number}")
            for name in work:
                work[name] += answers[-1]["chain"]["work"][name]
        # Else nothing of it was tested.
        for name, count in work.items():
            self.assertGreater(count, 0, name)

    def check_tiny(self, name: str) -> None:
        package = testing.temporary_directory() / name
        testing.run("compile", testing.kSourceDir / "tests/tiny_models" / name, "-o", package).check()
        self.check(Model(name, package, 256), (1, 2, 3))

    def test_tiny(self):
        self.check_tiny("qwen3")

    def test_mixture_of_experts(self):
        # An expert may get a single row of a step.
        self.check_tiny("qwen3_moe")

    def test_smollm2(self):
        self.check(Model("smollm2", testing.smollm2_package(), 49000), (1, 2, 3))


if __name__ == "__main__":
    unittest.main()
