"""Packages: GenAI runs them unchanged, an IR directory becomes one by links, damage is named, and a
sparse package serves its range."""

import json
import os
import shutil
import signal
import time
import unittest
from pathlib import Path

import numpy as np
import openvino
import openvino_genai

import paceline_testing as testing

kTinyModels = testing.kSourceDir / "tests/tiny_models"
# Tied head, sliding window, mixture of experts, alibi.
kServedTinyModels = ("llama_tied", "gemma3", "qwen3_moe", "bloom")


class GenAi(testing.TestCase):
    """openvino_genai on the directory as it is, with token ids."""

    kQuestion = "What is the capital of France?"

    def expected(self) -> tuple[list[int], list[int]]:
        outcome = testing.run(
            "generate", "-p", testing.smollm2_package(), "--chat", self.kQuestion, "--json",
            "--profile", "exact", "-n", 100, "--ctx", 512,
        )  # fmt: skip
        answer = outcome.check().json()[0]
        self.assertEqual(answer["finish_reason"], "stop", outcome)
        self.assertIn("Paris", answer["text"])
        return answer["prompt_ids"], answer["tokens"]

    def test_a_package_runs_unchanged_and_stops_at_the_end_token(self):
        prompt, ours = self.expected()
        end = json.loads((testing.smollm2_package() / "generation_config.json").read_text())
        self.assertEqual(ours[-1], end["eos_token_id"])
        pipeline = openvino_genai.LLMPipeline(
            str(testing.smollm2_package()), "CPU", **testing.kExactProperties
        )
        config = pipeline.get_generation_config()
        config.max_new_tokens = 100
        config.apply_chat_template = False
        theirs = list(pipeline.generate(openvino.Tensor(np.array([prompt], np.int64)), config).tokens[0])
        self.assertEqual(theirs, ours)


class IrDirectories(testing.TestCase):
    def compile(self, name: str) -> Path:
        target = testing.temporary_directory() / name
        if not target.exists():
            testing.run("compile", kTinyModels / name, "-o", target).check()
        return target

    def generate(self, package: Path, stages: int) -> dict:
        outcome = testing.run(
            "generate", "-p", package, "--prompt-ids", "1,5,9,2", "--stages", stages, "-n", 12,
            "--ignore-eos", "--json", "--digests", "--ctx", 64,
        )  # fmt: skip
        return outcome.check().json()[0]

    def test_becomes_a_package_by_links(self):
        package = self.compile("llama_tied")
        for name in ("openvino_model.bin", "openvino_model.xml"):
            source = kTinyModels / "llama_tied" / name
            self.assertEqual((package / name).read_bytes(), source.read_bytes())
            if os.stat(package).st_dev == os.stat(source).st_dev:
                self.assertTrue(os.path.samefile(package / name, source), f"{name} was copied")

    def test_all_architectures_run_over_two_stages(self):
        for name in kServedTinyModels:
            with self.subTest(name):
                package = self.compile(name)
                one, two = self.generate(package, 1), self.generate(package, 2)
                self.assertEqual(len(one["tokens"]), 12)
                self.assertEqual(one["prompt_ids"], [1, 5, 9, 2])
                self.assertEqual(one["text"], "")
                self.assertEqual(one["tokens"], two["tokens"])
                self.assertEqual(one["logits_digests"], two["logits_digests"])

    def test_text_needs_a_tokenizer(self):
        package = self.compile("llama_tied")
        outcome = testing.run("generate", "-p", package, "some text", "--ctx", 64)
        self.assert_user_error(outcome, package, "tokenizer.json", "--prompt-ids")
        outcome = testing.run("chat", "-p", package, stdin=b"hello\n")
        self.assert_user_error(outcome, package, "chat template")
        outcome = testing.run("generate", "-p", package, "--prompt-ids", 1, "--stop", "x", "--ctx", 64)
        self.assert_user_error(outcome, "stop strings")

    def test_inspect_tells_what_it_holds(self):
        text = testing.run("inspect", self.compile("bloom"), "--json").check().stdout
        about = json.loads(text)
        self.assertEqual(about["architecture"], "bloom")
        self.assertEqual(about["source"], "openvino")
        self.assertEqual(len(about["layer_bytes"]), about["layers"])


class Damage(testing.TestCase):
    """A changed byte anywhere is found before anything is answered, and its file is named."""

    def check_refused(self, package: Path, name: str) -> None:
        short = ("--prompt-ids", 1, "-n", 1, "--ctx", 64)
        outcome = testing.run("generate", "-p", package, *short)
        self.assert_user_error(outcome, package / name)
        self.assertEqual(outcome.stdout, b"")
        self.assert_user_error(testing.run("verify", package), package / name)

    def test_a_changed_byte_of_each_file(self):
        for name in ("openvino_model.xml", "tokenizer.json", "generation_config.json"):
            with self.subTest(name):
                package = testing.copy_package(f"changed-{name}")
                size = (package / name).stat().st_size
                testing.flip_byte(package / name, size // 2)
                self.check_refused(package, name)

    def test_a_changed_byte_of_the_weights(self):
        package = testing.copy_package("changed-weights")
        weights = package / "openvino_model.bin"
        copy = package / "copy"
        shutil.copy(weights, copy)
        copy.replace(weights)
        testing.flip_byte(weights, weights.stat().st_size // 3)
        self.check_refused(package, "openvino_model.bin")

    def test_a_changed_manifest(self):
        # Its digest is another one then; what no longer fits is named.
        package = testing.copy_package("changed-manifest")
        manifest = package / "paceline.json"
        manifest.write_text(manifest.read_text().replace('"layers"', '"leyers"', 1))
        outcome = testing.run("generate", "-p", package, "--prompt-ids", 1)
        self.assert_user_error(outcome, package, "layers")

    def test_the_coordinators_own_files_count_too(self):
        package = testing.copy_package("changed-here")
        testing.flip_byte(package / "tokenizer.json", 5000)
        server = self.start(testing.worker(testing.smollm2_package()))
        outcome = testing.run("generate", "-p", package, "--workers", server.address, "hello")
        self.assert_user_error(outcome, package / "tokenizer.json")

    def test_a_truncated_weights_file(self):
        package = testing.copy_package("truncated")
        weights = package / "openvino_model.bin"
        data = weights.read_bytes()
        weights.unlink()
        weights.write_bytes(data[: len(data) // 2])
        self.check_refused(package, "openvino_model.bin")


def punch_holes(package: Path, first: int, last: int) -> None:
    """Leaves of the weights what layers [first, last) need, by docs/package.md."""
    manifest = json.loads((package / "paceline.json").read_text())
    layers = manifest["layers"]
    weights = package / "openvino_model.bin"
    full = weights.read_bytes()
    weights.unlink()

    def is_needed(part) -> bool:
        if isinstance(part, list):
            return part[0] < last and first < part[1]
        needed = {"shared": True, "embedding": first == 0, "head": last == layers}
        return needed[part]

    with weights.open("wb") as file:
        file.truncate(len(full))
        for extent in manifest["weights"]["extents"]:
            if any(map(is_needed, extent["parts"])):
                file.seek(extent["offset"])
                file.write(full[extent["offset"] : extent["offset"] + extent["bytes"]])


class Interrupts(testing.TestCase):
    """Ctrl-C while a long file is hashed: one of holes, which takes no disk and long to read."""

    kLong = 64 << 30

    def long_directory(self, name: str) -> Path:
        directory = testing.temporary_directory() / name
        shutil.copytree(kTinyModels / "llama_tied", directory)
        with (directory / "long.txt").open("wb") as file:
            file.truncate(self.kLong)
        return directory

    def package(self, name: str) -> Path:
        """A package by its manifest, which has a wrong hash of the long file."""
        directory = testing.temporary_directory() / name
        testing.run("compile", kTinyModels / "llama_tied", "-o", directory).check()
        manifest = json.loads((directory / "paceline.json").read_text())
        manifest["files"]["long.txt"] = {"bytes": self.kLong, "sha256": "0" * 64}
        (directory / "paceline.json").write_text(json.dumps(manifest))
        with (directory / "long.txt").open("wb") as file:
            file.truncate(self.kLong)
        return directory

    def interrupt(self, phase: bytes, *arguments) -> None:
        with testing.Command(*arguments) as command:
            seen = b""
            while phase not in seen:
                more = os.read(command.process.stderr.fileno(), 4096)
                self.assertTrue(more, seen)
                seen += more
            time.sleep(0.3)
            self.assertIsNone(command.process.poll(), "it ended by itself")
            begin = time.monotonic()
            command.process.send_signal(signal.SIGINT)
            outcome = command.wait(20)
            self.assertLess(time.monotonic() - begin, 1.0)
            self.assert_error(outcome, "interrupted", code=1)

    def test_compile(self):
        source = self.long_directory("long-ir")
        target = testing.temporary_directory() / "never"
        self.interrupt(b"hashing", "compile", source, "-o", target)
        self.assertFalse(target.exists())
        self.interrupt(b"hashing", "compile", source, "-o", source)
        self.assertFalse((source / "paceline.json").exists())

    def test_verify(self):
        self.interrupt(b"verifying", "verify", self.package("long-package"))

    def test_fetch(self):
        package = self.package("long-source")
        self.interrupt(b"checking", "shard", "fetch", package, "-o", self.package("long-target"))


class SparsePackages(testing.TestCase):
    kFlags = ("--split", "10,20", "-n", 16, "--ctx", 128, "--json", "--digests", "--ignore-eos")

    def test_serves_its_range_and_nothing_else(self):
        package = testing.smollm2_package()
        sparse = testing.copy_package("sparse")
        punch_holes(sparse, 10, 30)
        stored = (sparse / "openvino_model.bin").stat().st_blocks * 512
        self.assertLess(stored, (package / "openvino_model.bin").stat().st_size)
        lower, upper = self.start(testing.worker(package)), self.start(testing.worker(sparse))

        whole = testing.run(
            "generate", "-p", package, "The sea", "--stages", 2, *self.kFlags
        ).check().json()[0]  # fmt: skip
        chain = ("generate", "-p", package, "The sea", "--workers")
        over_both = testing.run(*chain, testing.addresses(lower, upper), *self.kFlags).check().json()[0]
        self.assertEqual(over_both["tokens"], whole["tokens"])
        self.assertEqual(over_both["logits_digests"], whole["logits_digests"])

        refused = testing.run(*chain, testing.addresses(upper, lower), *self.kFlags)
        self.assert_user_error(refused, upper.address, sparse / "openvino_model.bin", "missing")
        refused = testing.run("generate", "-p", sparse, "The sea", "--ctx", 64)
        self.assert_user_error(refused, sparse / "openvino_model.bin", "missing")


if __name__ == "__main__":
    unittest.main()
