"""Hugging Face directories: compiled from what is in them, answering over two stages."""

import functools
import json
import shutil
import unittest
from pathlib import Path

import paceline_testing as testing
import tiny_hf


@functools.cache
def source(parts: int) -> Path:
    return tiny_hf.write(testing.temporary_directory() / f"hf-{parts}", parts)


@functools.cache
def package(parts: int) -> Path:
    target = testing.temporary_directory() / f"hf-package-{parts}"
    testing.run("compile", source(parts), "-o", target).check()
    return target


def answer(*arguments, parts: int = 1) -> dict:
    outcome = testing.run(
        "generate", "-p", package(parts), "--ctx", 128, "-n", 48, "--json", "--profile", "exact",
        *arguments,
    )  # fmt: skip
    return outcome.check().json()[0]


class HfDirectory(testing.TestCase):
    def test_the_package_holds_what_the_directory_says(self):
        found = {file.name for file in package(1).iterdir()}
        for name in ("openvino_model.xml", "openvino_model.bin", "paceline.json", "tokenizer.json",
                     "tokenizer_config.json", "chat_template.jinja", "config.json",
                     "generation_config.json", "special_tokens_map.json"):  # fmt: skip
            self.assertIn(name, found)
        self.assertNotIn("model.safetensors", found)
        read = lambda name: json.loads((package(1) / name).read_text())
        self.assertEqual(read("paceline.json")["model"]["source"], "safetensors")
        self.assertEqual(read("tokenizer.json"), tiny_hf.tokenizer())
        self.assertEqual((package(1) / "chat_template.jinja").read_text(), tiny_hf.kTemplate)
        # That of generation_config.json, and what the tokenizer calls the end.
        self.assertEqual(
            read("generation_config.json")["eos_token_id"], [tiny_hf.kEos, tiny_hf.kEnd]
        )
        self.assertEqual(read("tokenizer_config.json")["bos_token"], "<s>")

    def test_it_answers_alike_over_one_and_two_stages(self):
        answers = [answer("abc", "--ignore-eos", "--stages", stages) for stages in (1, 2)]
        self.assertEqual(answers[0]["tokens"], answers[1]["tokens"])
        self.assertEqual(len(answers[0]["tokens"]), 48)
        self.assertGreater(len(set(answers[0]["tokens"])), 10)
        self.assertEqual(len(answers[1]["chain"]["stages"]), 2)

    def test_the_prompt_is_read_by_its_tokenizer_and_template(self):
        ab, c = 256, tiny_hf.tokens().index("c")
        self.assertEqual(answer("abc")["prompt_ids"], [ab, c])
        self.assertEqual(
            answer("--chat", "abc")["prompt_ids"], [tiny_hf.kBos, ab, c, tiny_hf.kEnd]
        )

    def test_parts_with_an_index_are_one_model(self):
        whole, parts = (answer("abc", "--ignore-eos", parts=n)["tokens"] for n in (1, 3))
        self.assertEqual(whole, parts)

    def test_the_publishers_sampling_is_taken_where_no_flag_says_otherwise(self):
        directory = testing.temporary_directory() / "hf-sampled"
        shutil.copytree(source(1), directory)
        wishes = {"do_sample": True, "temperature": 1.5, "top_k": 30}
        generation = directory / "generation_config.json"
        generation.write_text(json.dumps({"eos_token_id": tiny_hf.kEos, **wishes}))
        target = testing.temporary_directory() / "hf-sampled-package"
        testing.run("compile", directory, "-o", target).check()
        about = json.loads(testing.run("inspect", target, "--json").check().stdout)
        self.assertEqual(about["sampling"], wishes)
        self.assertIn("temperature 1.5", testing.run("inspect", target).check().stdout.decode())

        def tokens(package, *flags) -> list[int]:
            outcome = testing.run(
                "generate", "-p", package, "--prompt", "abc", "--ctx", 128, "-n", 24, "--json",
                "--ignore-eos", *flags,
            )  # fmt: skip
            return outcome.check().json()[0]["tokens"]

        greedy = tokens(package(1))
        sampled = tokens(target)
        self.assertNotEqual(sampled, greedy)
        self.assertEqual(sampled, tokens(package(1), "--temperature", 1.5, "--top-k", 30))
        self.assertEqual(greedy, tokens(target, "--temperature", 0))
        self.assertEqual(greedy, tokens(target, "--top-k", 1))

        for wrong in ({"temperature": "hot"}, {"top_k": 2.5}, {"do_sample": 1}):
            generation.write_text(json.dumps(wrong))
            never = testing.temporary_directory() / "never"
            outcome = testing.run("compile", directory, "-o", never)
            self.assert_user_error(outcome, generation, *wrong)
            self.assertFalse(never.exists())

    def test_what_is_missing_is_named_and_nothing_is_left(self):
        for name, message in {
            "tokenizer.json": "has no tokenizer.json and no tokenizer.model",
            "config.json": "config.json",
        }.items():
            damaged = testing.temporary_directory() / f"hf-without-{name}"
            shutil.copytree(source(1), damaged)
            (damaged / name).unlink()
            target = testing.temporary_directory() / "never"
            self.assert_user_error(testing.run("compile", damaged, "-o", target), damaged, message)
            self.assertFalse(target.exists())


if __name__ == "__main__":
    unittest.main()
