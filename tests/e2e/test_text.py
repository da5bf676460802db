"""What a user sees: seeded text, stop strings, whole characters, limits, chat, doctor, inspect.

Where it does not matter what a model knows, it is the tiny one, which a stage loads in a tenth of the time.
"""

import json
import re
import time
import unittest
from pathlib import Path

import paceline_testing as testing
import tiny_hf
from paceline_terminal import Terminal

kPrompt = "The old lighthouse on the island"


def generate(*arguments, package: Path | None = None, ctx: int = 256, **options) -> testing.Outcome:
    package = package or testing.smollm2_package()
    return testing.run("generate", "-p", package, "--ctx", ctx, *arguments, **options)


def tiny(*arguments, **options) -> testing.Outcome:
    return generate(*arguments, package=tiny_hf.package(), **options)


class Sampling(testing.TestCase):
    kFlags = ("--temperature", 0.8, "--top-p", 0.95, "--top-k", 40, "-n", 64, "--json", "--ignore-eos")

    def text(self, ask, *flags) -> str:
        return ask(kPrompt, *self.kFlags, *flags).check().json()[0]["text"]

    def test_the_seed_alone_decides(self):
        texts = [self.text(generate, "--seed", 7, "--stages", stages) for stages in (1, 2, 3)]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[0], texts[2])
        self.assertGreaterEqual(len(set(texts[0].split())), 10)

    def test_another_seed_is_another_text(self):
        texts = [self.text(tiny, "--seed", seed) for seed in (7, 8, 7)]
        self.assertNotEqual(texts[0], texts[1])
        self.assertEqual(texts[0], texts[2])


class Choosing(testing.TestCase):
    """Flags that change which tokens may come, each over one stage and two."""

    def answers(self, *flags, stages: int = 1) -> list[dict]:
        return tiny(kPrompt, "--json", "--ignore-eos", "--stages", stages, *flags).check().json()

    def test_a_forbidden_token_never_comes_and_a_biased_one_always(self):
        plain = self.answers("-n", 24)[0]["tokens"]
        common = max(plain, key=plain.count)
        without = self.answers("-n", 24, "--logit-bias", f"{common}:-inf", stages=2)[0]["tokens"]
        self.assertNotIn(common, without)
        self.assertEqual(self.answers("-n", 5, "--logit-bias", "11:100")[0]["tokens"], [11] * 5)

    def test_ids_outside_the_vocabulary_are_refused_by_name(self):
        outcome = tiny(kPrompt, "--logit-bias", "99999:1")
        self.assert_user_error(outcome, "logit_bias", "99999", "260")
        self.assert_user_error(tiny(kPrompt, "--stop-token", "260"), "stop_tokens", "260")
        self.assert_user_error(tiny(kPrompt, "--logit-bias", "5=1"), "--logit-bias 5=1")
        self.assert_user_error(tiny(kPrompt, "--presence-penalty", "3"), "presence_penalty")

    def test_penalties_against_repetition(self):
        # A few tokens are so likely that hardly any others come.
        favoured = ",".join(f"{token}:6" for token in range(65, 75))
        flags = ("-n", 40, "--logit-bias", favoured)
        plain = self.answers(*flags)[0]["tokens"]
        self.assertLess(len(set(plain)), 20)
        for penalty in (("--repetition-penalty", 1.5), ("--frequency-penalty", 2), ("--presence-penalty", 2)):
            texts = [self.answers(*flags, *penalty, stages=stages)[0]["tokens"] for stages in (1, 2)]
            self.assertEqual(texts[0], texts[1])
            self.assertGreater(len(set(texts[0])), len(set(plain)), penalty)

    def test_a_stop_token_and_the_fewest_tokens(self):
        plain = self.answers("-n", 20)[0]["tokens"]
        stop = plain[4]
        first = plain.index(stop)
        answer = self.answers("-n", 20, "--stop-token", stop)[0]
        self.assertEqual(answer["tokens"], plain[: first + 1])
        self.assertEqual(answer["finish_reason"], "stop")
        longer = self.answers("-n", 20, "--stop-token", stop, "--min-tokens", 10, stages=2)[0]
        self.assertGreater(len(longer["tokens"]), 10)
        self.assertNotIn(stop, longer["tokens"][:10])

    def test_min_p_of_one_is_greedy(self):
        flags = ("-n", 16, "--profile", "exact")  # in `fast` two logits may be equal
        hot = self.answers(*flags, "--temperature", 2, "--min-p", 1, "--seed", 3)[0]["tokens"]
        self.assertEqual(hot, self.answers(*flags)[0]["tokens"])

    def test_choices_differ_and_are_those_of_the_seed(self):
        flags = ("-n", 12, "--temperature", 1, "--seed", 5, "--n", 3)
        answers = self.answers(*flags)
        self.assertEqual([answer["choice"] for answer in answers], [0, 1, 2])
        self.assertEqual(len({tuple(answer["tokens"]) for answer in answers}), 3)
        again = self.answers(*flags, stages=2)
        self.assertEqual([a["tokens"] for a in answers], [a["tokens"] for a in again])
        self.assertGreater(answers[1]["reused_tokens"], 0)

    def test_logprobs_of_the_likeliest(self):
        flags = ("-n", 8, "--logprobs", 3)
        answer = self.answers(*flags)[0]
        self.assertEqual(len(answer["logprobs"]), 8)
        for token, logprob, top in zip(answer["tokens"], answer["logprobs"], answer["top_logprobs"], strict=True):
            self.assertEqual(len(top), 3)
            self.assertEqual(top[0], {"token": token, "logprob": logprob})  # greedy: the likeliest
            self.assertLessEqual(top[2]["logprob"], top[1]["logprob"])
            self.assertLess(logprob, 0)
        # The model's own distribution: neither temperature nor bias changes it.
        biased = self.answers(*flags, "--logit-bias", f"{answer['tokens'][0]}:-inf", "--temperature", 0.7)[0]
        self.assertEqual(biased["top_logprobs"][0], answer["top_logprobs"][0])
        self.assertNotEqual(biased["tokens"][0], answer["tokens"][0])
        self.assertNotIn("top_logprobs", self.answers("-n", 1)[0])

    def test_logprobs_of_the_prompt(self):
        # What the model says greedily after a prompt has, as a prompt, the same log-probabilities.
        said = self.answers("-n", 12, "--profile", "exact")[0]
        ids = said["prompt_ids"] + said["tokens"]
        flags = ("--prompt-ids", ",".join(map(str, ids)), "-n", 1, "--json", "--prompt-logprobs")
        for stages in (1, 2):
            scored = tiny(*flags, "--profile", "exact", "--stages", stages).check().json()[0]
            self.assertEqual(len(scored["prompt_logprobs"]), len(ids) - 1)
            self.assertEqual(scored["prompt_logprobs"][-12:], said["logprobs"])


class Limits(testing.TestCase):
    def test_a_context_beyond_the_memory_is_refused_with_the_numbers(self):
        outcome = generate("hello", ctx=100_000_000)
        self.assert_user_error(outcome, "100000000", "bytes per token", "--ctx")
        self.assertRegex(outcome.stderr, r"room for \d+ tokens")

    def test_a_prompt_beyond_the_context(self):
        outcome = tiny("--prompt-ids", ",".join(["5"] * 100), ctx=64)
        self.assert_user_error(outcome, "100 tokens", "64")

    def test_the_context_ends_the_answer(self):
        outcome = tiny("--prompt-ids", ",".join(["5"] * 40), "--json", "--ignore-eos", ctx=64)
        answer = outcome.check().json()[0]
        self.assertEqual(answer["finish_reason"], "length")
        self.assertLessEqual(len(answer["tokens"]) + 40, 64)
        self.assertGreaterEqual(len(answer["tokens"]) + 40, 63)

    def test_a_stage_holds_its_part(self):
        stages = generate("hello", "--stages", 2, "-n", 2, "--json").check().json()[0]["chain"]["stages"]
        for stage in stages:
            print(stage["layers"], stage["weight_bytes"], stage["anonymous_bytes"], "anonymous bytes")
            self.assertGreater(stage["anonymous_bytes"], 0)
            self.assertLess(stage["anonymous_bytes"], stage["resident_bytes"])
        self.assertEqual(stages[0]["layers"][1], stages[1]["layers"][0])


class Text(testing.TestCase):
    def test_a_stop_string_is_not_shown(self):
        whole = generate(kPrompt, "-n", 40, "--quiet").check().stdout.decode()
        stop = whole.split()[5]
        shown = whole[: whole.index(stop)]
        outcome = generate(kPrompt, "-n", 40, "--quiet", "--stop", stop)
        self.assertEqual(outcome.check().stdout.decode(), shown + "\n")
        flags = ("-n", 40, "--json", "--stop", stop, "--stages", 2)
        answer = generate(kPrompt, *flags).check().json()[0]
        self.assertEqual(answer["finish_reason"], "stop")
        self.assertEqual(answer["text"], shown)

    def test_a_stop_string_over_several_tokens(self):
        flags = (kPrompt, "-n", 100, "--ignore-eos", "--json")
        whole = tiny(*flags).check().json()[0]["text"]
        stop = re.search(r"(?<=.{5})[A-Za-z0-9]{2}", whole, re.DOTALL).group()  # two bytes, two tokens
        for stages in (1, 2):
            answer = tiny(*flags, "--stop", stop, "--stages", stages).check().json()[0]
            self.assertEqual(answer["text"], whole[: whole.index(stop)])
            self.assertEqual(answer["finish_reason"], "stop")

    def test_characters_are_never_broken(self):
        # Hot enough to sample bytes that make no character.
        flags = ("--temperature", 5, "--top-k", 0, "-n", 60, "--ignore-eos")
        for seed in range(2):
            outcome = tiny("Emoji: 🍾🐢", *flags, "--seed", seed, "--quiet").check()
            outcome.stdout.decode("utf-8", errors="strict")

    def test_an_emoji_that_is_split_over_tokens(self):
        asked = tiny("🦩", "-n", 1, "--json").check().json()[0]["prompt_ids"]
        self.assertGreater(len(asked), 1, "this vocabulary has the emoji whole: choose another")
        part = ",".join(map(str, asked[:-1]))
        with testing.Command(
            "generate", "-p", tiny_hf.package(), "--prompt-ids", part, "-n", 8, "--quiet",
            "--ctx", 64,
        ) as command:  # fmt: skip
            command.wait().check().stdout.decode("utf-8", errors="strict")

    def test_standard_input_and_a_file_are_prompts(self):
        flags = ("-n", 4, "--quiet")
        given = tiny(kPrompt, *flags).check().stdout
        self.assertEqual(tiny(*flags, stdin=kPrompt.encode()).check().stdout, given)
        file = testing.temporary_directory() / "two_prompts.txt"
        file.write_text(f"{kPrompt}\n\n{kPrompt}\n")
        self.assertEqual(tiny("--prompts", file, *flags).check().stdout, 2 * given)


class Chat(testing.TestCase):
    def open(self, package: Path, *arguments) -> Terminal:
        terminal = Terminal("chat", "-p", package, "--ctx", 1024, *arguments)
        self.addCleanup(terminal.close)
        terminal.wait_for(r"/exit ends it[^>]*> ")
        return terminal

    def test_two_turns_an_interrupted_answer_and_the_end(self):
        terminal = self.open(testing.smollm2_package(), "--stages", 2, "-n", 200)
        first = "What is the capital of France?\n"
        terminal.type(first)
        answer = terminal.wait_for(r"\n> ")
        self.assertIn("Paris", answer)
        terminal.type("Write a very long story about my name.\n")
        terminal.wait_for(r"story about my name\.\r?\n(.|\n){20,}")
        terminal.press_ctrl_c()
        terminal.wait_for(r"\[stopped\]\r?\n> ", timeout=10)
        terminal.type("Thank you. Go on.\n")
        self.assertGreater(len(terminal.wait_for(r"Go on\.\r?\n(.|\n)+\n> ")), 25)
        # The same first turn gets the same answer once the rest is forgotten.
        terminal.type("/clear\n")
        terminal.wait_for("> ")
        terminal.type(first)
        self.assertEqual(terminal.wait_for(r"\n> "), answer)
        terminal.type("/exit\n")
        self.assertEqual(terminal.process.wait(10), 0)

    def test_ctrl_c_at_the_prompt_ends_it(self):
        terminal = self.open(tiny_hf.package())
        terminal.press_ctrl_c()
        self.assertEqual(terminal.process.wait(10), 0)

    def test_without_a_terminal_only_answers_are_printed(self):
        outcome = testing.run(
            "chat", "-p", testing.smollm2_package(), "--ctx", 256, "-n", 30,
            stdin=b"What is the capital of France?\n",
        )  # fmt: skip
        text = outcome.check().stdout.decode()
        self.assertIn("Paris", text)
        self.assertNotIn(">", text)
        self.assertEqual(outcome.stderr, "")


class Reports(testing.TestCase):
    def test_doctor(self):
        about = json.loads(testing.run("doctor", "--json").check().stdout)
        self.assertIn("CPU", [device["id"] for device in about["devices"]])
        self.assertTrue(all(device["works"] for device in about["devices"]))
        self.assertGreater(about["memory_total_bytes"], about["memory_available_bytes"])
        self.assertIn(about["openvino"].split("-")[0], testing.run("doctor").check().stdout.decode())

    def test_inspect(self):
        package = testing.smollm2_package()
        about = json.loads(testing.run("inspect", package, "--json").check().stdout)
        self.assertEqual(about["layers"], 30)
        self.assertEqual(about["hidden_size"], 576)
        self.assertIn("u4 group 32", about["quantization"])
        self.assertEqual(len(about["layer_bytes"]), 30)
        self.assertGreater(about["kv_bytes_per_token"]["exact"], about["kv_bytes_per_token"]["fast"])
        self.assertIn("30", testing.run("inspect", package).check().stdout.decode())

    def test_verify(self):
        outcome = testing.run("verify", testing.smollm2_package()).check()
        self.assertIn("whole", outcome.stdout.decode())


if __name__ == "__main__":
    unittest.main()
