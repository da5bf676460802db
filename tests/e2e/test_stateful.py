"""The stateful engine: the paged one's text in profile exact, one answer after the other, stages from the cache."""

import json
import os
import signal
import unittest
from pathlib import Path

import paceline_testing as testing
import tiny_hf

kPrompt = "The old lighthouse on the island"
kCounting = "one two three four one two three four one two three"


def setUpModule():
    os.environ["XDG_CACHE_HOME"] = str(testing.temporary_directory() / "cache")


def generate(*arguments, package: Path | None = None) -> testing.Outcome:
    return testing.run("generate", "-p", package or testing.smollm2_package(), "--ctx", 256, *arguments)


def answers(*arguments, engine: str = "stateful", package: Path | None = None) -> list[dict]:
    flags = ("--engine", engine, "--profile", "exact", "--json", "--digests", "--ignore-eos")
    return generate(*flags, *arguments, package=package).check().json()


class Exact(testing.TestCase):
    def test_any_number_of_stages_gives_the_paged_engines_text(self):
        (paged,) = answers(kPrompt, "-n", 24, engine="paged")
        found = [answers(kPrompt, "-n", 24, "--stages", stages)[0] for stages in (1, 2, 3)]
        self.assertGreaterEqual(len(set(paged["tokens"])), 12)
        for answer in found:
            self.assertEqual(answer["chain"]["engine"], "stateful")
            self.assertEqual(answer["tokens"], paged["tokens"])
            self.assertEqual(answer["text"], paged["text"])
            self.assertEqual(answer["logits_digests"], found[0]["logits_digests"], "bit for bit")
        self.assertEqual([len(answer["chain"]["stages"]) for answer in found], [1, 2, 3])

    def test_guesses_and_chunks_change_no_bit(self):
        (plain,) = answers(kCounting, "-n", 24)
        (guessed,) = answers(kCounting, "-n", 24, "--speculation", "always", "--stages", 2, "--step-tokens", 5)
        self.assertGreater(guessed["chain"]["work"]["accepted_drafts"], 5)
        self.assertGreater(guessed["chain"]["work"]["wasted_rows"], 0, "some were forgotten")
        self.assertEqual(guessed["tokens"], plain["tokens"])
        self.assertEqual(guessed["logits_digests"], plain["logits_digests"])

    def test_several_answers_come_one_after_the_other(self):
        flags = (kPrompt, "-n", 12, "--n", 3, "--temperature", 0.8, "--seed", 5)
        found, paged = (answers(*flags, engine=engine, package=tiny_hf.package()) for engine in ("stateful", "paged"))
        self.assertEqual([answer["tokens"] for answer in found], [answer["tokens"] for answer in paged])
        self.assertGreater(len({answer["text"] for answer in found}), 1)
        self.assertEqual(found[-1]["chain"]["work"]["reused_tokens"], 0)


class Serving(testing.TestCase):
    def test_a_cancelled_answer_makes_room_for_the_next(self):
        with testing.worker(testing.smollm2_package()) as worker:
            flags = ("--workers", worker.address, "--engine", "stateful")
            prompts = f"{kPrompt}\n{kCounting}\n".encode()
            arguments = ("generate", "-p", testing.smollm2_package(), "--ctx", 4096, *flags)
            with testing.Command(*arguments, "--ignore-eos", "-n", 2400, kPrompt) as command:
                command.wait_for_output()
                command.process.send_signal(signal.SIGINT)
                self.assertEqual(command.wait(20).code, 0)
            outcome = testing.run(*arguments, "--prompts", "-", "-n", 8, "--quiet", stdin=prompts)
            self.assertEqual(len(outcome.check().stdout.splitlines()), 2, outcome)
            self.assertTrue(worker.is_running())

    def test_a_precompiled_stage_is_imported(self):
        cache = testing.temporary_directory() / "forms"
        package = testing.smollm2_package()
        made = testing.run("precompile", package, "--layers", "10:30", "--cache", cache, "--json").check()
        self.assertTrue(json.loads(made.stdout)["stored"])
        first = self.enterContext(testing.worker(package, "--cache", cache))
        second = self.enterContext(testing.worker(package, "--cache", cache))
        flags = ("--workers", testing.addresses(first, second), "--split", "10,20", "--engine", "stateful")
        (answer,) = generate(*flags, "--json", "-n", 8, kPrompt).check().json()
        self.assertEqual([stage["form"] for stage in answer["chain"]["stages"]], ["compiled", "imported"])
        self.assertEqual(len(list(cache.iterdir())), 1, "nothing is stored without being asked")

    def test_an_engine_that_is_none_is_refused_by_name(self):
        self.assert_user_error(generate("--engine", "packed", kPrompt), "--engine", "packed")


if __name__ == "__main__":
    unittest.main()
