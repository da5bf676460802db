"""Wrong arguments and damaged sources: exit code 2, one line that names the file, nothing left."""

import os
import re
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

import paceline_testing as testing
import tiny_gguf
from tiny_gguf import TinyGguf


class CompileCase(testing.TestCase):
    def setUp(self):
        # A directory per test, so that whatever is left behind shows.
        self.directory = testing.temporary_directory() / self.id().rpartition(".")[2]
        self.directory.mkdir()
        self.target = self.directory / "package"

    def check_refused(self, source: Path, *named: str) -> None:
        outcome = testing.run("compile", source, "-o", self.target, timeout=60)
        self.assert_user_error(outcome, source, *named)
        self.check_nothing_left(source)

    def check_directory_refused(self, source: Path, file: str) -> None:
        outcome = testing.run("compile", source, "-o", self.target, timeout=60)
        self.assert_user_error(outcome, source / file)
        self.check_nothing_left(source)

    def check_nothing_left(self, *expected: Path) -> None:
        left = set(self.directory.iterdir()) - set(expected)
        self.assertEqual(left, set())


class Sources(CompileCase):
    def test_the_unchanged_file_is_right(self):
        # Else all the refusals here could have another reason.
        source = TinyGguf().write(self.directory / "tiny.gguf")
        testing.run("compile", source, "-o", self.target).check()
        answer = testing.run(
            "generate", "-p", self.target, "hello", "--stages", 2, "-n", 4, "--json", "--ctx", 64
        )  # fmt: skip
        self.assertGreaterEqual(len(answer.check().json()[0]["tokens"]), 1)

    def test_truncated(self):
        data = TinyGguf().encode()
        for length in (0, 3, 4, 20, 24, 100, 1000, len(data) // 2, len(data) - 4096):
            with self.subTest(length=length):
                source = self.directory / "tiny.gguf"
                source.write_bytes(data[:length])
                self.check_refused(source)

    def test_garbage(self):
        source = self.directory / "garbage.gguf"
        source.write_bytes(bytes(i * 131 % 251 for i in range(10_000)))
        self.check_refused(source, "GGUF")

    def check_changed(self, change, *named: str) -> None:
        gguf = TinyGguf()
        change(gguf)
        self.check_refused(gguf.write(self.directory / "tiny.gguf"), *named)

    def test_counts_and_versions(self):
        for attribute, number in (
            ("tensor_count", 2**63), ("metadata_count", 2**62), ("version", 99),
            ("tensor_count", 2**32),
        ):  # fmt: skip
            with self.subTest(attribute, number=number):
                self.check_changed(lambda gguf: setattr(gguf, attribute, number))

    def test_dimensions(self):
        name = "blk.1.ffn_up.weight"
        for dimensions in (
            [0, 128], [64, 0], [2**42 + 1, 2**22], [2**63 - 1, 128], [2**63 - 1], [2**32, 2**32],
            [64, 127], [128, 64], [64, 128, 1, 1, 1], [],
        ):  # fmt: skip
            with self.subTest(dimensions=dimensions):
                change = lambda gguf: setattr(gguf.tensors[name], "dimensions", dimensions)  # noqa: E731
                self.check_changed(change, name)

    def test_offsets_and_types(self):
        name = "blk.0.attn_q.weight"
        for attribute, number in (("offset", 2**62), ("offset", 7), ("type", 200)):
            with self.subTest(attribute, number=number):
                self.check_changed(lambda gguf: setattr(gguf.tensors[name], attribute, number), name)
        change = lambda gguf: setattr(gguf.tensors[name], "type", tiny_gguf.kTensorQ5K)  # noqa: E731
        self.check_changed(change, name, "Q5_K")

    def test_missing_tensors(self):
        for name in ("token_embd.weight", "blk.1.attn_v.weight", "output_norm.weight"):
            with self.subTest(name):
                self.check_changed(lambda gguf: gguf.tensors.pop(name), name)

    def test_metadata(self):
        layers = "llama.block_count"
        for key, content, *named in (
            (layers, (tiny_gguf.kU32, 0)),
            (layers, (tiny_gguf.kU32, 10**6)),
            (layers, (tiny_gguf.kU32, 3), "blk.2"),
            (layers, (tiny_gguf.kString, "two")),
            ("llama.attention.head_count", (tiny_gguf.kU32, 0)),
            ("llama.attention.head_count", (tiny_gguf.kU32, 7)),
            ("llama.embedding_length", (tiny_gguf.kU64, 2**63)),
            ("general.architecture", (tiny_gguf.kString, "mamba"), "mamba"),
            ("tokenizer.ggml.eos_token_id", (tiny_gguf.kU32, 10**6)),
            ("tokenizer.ggml.tokens", (tiny_gguf.kString, "no list")),
        ):
            with self.subTest(key, content=content):
                change = lambda gguf: gguf.metadata.update({key: content})  # noqa: E731
                self.check_changed(change, *(named or [key]))

    def test_missing_metadata(self):
        for key in ("general.architecture", "llama.block_count", "tokenizer.ggml.tokens"):
            with self.subTest(key):
                self.check_changed(lambda gguf: gguf.metadata.pop(key), key)

    def test_a_length_beyond_the_file(self):
        source = self.directory / "tiny.gguf"
        data = TinyGguf().encode()
        place = data.index(b"general.name") - 8
        for length in (2**64 - 1, 2**63 - 1, len(data)):
            with self.subTest(length=length):
                source.write_bytes(data[:place] + length.to_bytes(8, "little") + data[place + 8 :])
                self.check_refused(source)


class Places(CompileCase):
    def test_nothing_there(self):
        self.check_refused(self.directory / "none.gguf", "no such file")

    def test_an_empty_directory(self):
        source = self.directory / "empty"
        source.mkdir()
        self.check_refused(source, "openvino_model.xml")

    def test_an_ir_that_is_none(self):
        source = self.directory / "ir"
        source.mkdir()
        for name, content in (("openvino_model.xml", b"<net"), ("openvino_model.bin", bytes(64))):
            (source / name).write_bytes(content)
        self.check_directory_refused(source, "openvino_model.xml")
        (source / "openvino_model.bin").write_bytes(b"")
        self.check_directory_refused(source, "openvino_model.bin")

    def test_an_existing_target_is_left_alone(self):
        source = TinyGguf().write(self.directory / "tiny.gguf")
        self.target.mkdir()
        (self.target / "mine").write_text("mine")
        outcome = testing.run("compile", source, "-o", self.target)
        self.assert_user_error(outcome, self.target, "exists")
        self.assertEqual((self.target / "mine").read_text(), "mine")
        self.check_nothing_left(source, self.target)

    def test_missing_packages(self):
        nothing = self.directory / "nothing"
        for command in (
            ("generate", "-p", nothing, "hello"), ("chat", "-p", nothing), ("inspect", nothing),
            ("verify", nothing), ("worker", "--listen", "127.0.0.1:0", "-p", nothing),
        ):  # fmt: skip
            with self.subTest(command[0]):
                self.assert_user_error(testing.run(*command), nothing)
        self.assert_user_error(testing.run("inspect", self.directory), self.directory, "paceline.json")


@unittest.skipUnless(os.geteuid() == 0, "mounting needs root")
class FullDisk(CompileCase):
    """On a small disk of its own, in a mount namespace that ends with the command."""

    kScript = 'mount -t tmpfs -o size=%s none "$0" || exit 99; "$@"; code=$?; ls -A "$0"; exit $code'

    def compile_on(self, size: str, source: Path) -> testing.Outcome:
        disk = self.directory / "disk"
        disk.mkdir()
        shell = ("unshare", "-m", "sh", "-c", self.kScript % size, str(disk))
        outcome = testing.run("compile", source, "-o", disk / "package", prefix=shell)
        if outcome.code == 99 or "unshare" in outcome.stderr:
            self.skipTest(f"mounting is not allowed here: {outcome.stderr}")
        return outcome

    def check(self, outcome: testing.Outcome) -> None:
        self.assert_user_error(outcome, "openvino_model", "No space left")
        self.assertEqual(outcome.stdout, b"", "left behind")

    def test_gguf(self):
        self.check(self.compile_on("20m", testing.smollm2_gguf()))

    def test_ir(self):
        self.check(self.compile_on("100k", testing.kSourceDir / "tests/tiny_models/gpt_oss"))


class Interruptions(CompileCase):
    def interrupt_at(self, phase: str, number: signal.Signals, *flags) -> tuple[int, str]:
        """Signals a compile of SmolLM2 when it begins `phase`."""
        process = subprocess.Popen(
            [testing.binary(), "compile", str(testing.smollm2_gguf()), "-o", str(self.target), *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        seen = ""
        while not seen.endswith("\n") or phase not in seen:
            line = process.stderr.readline()
            self.assertTrue(line, f"ended before {phase}: {seen}")
            seen += line
        process.send_signal(number)
        begin = time.monotonic()
        try:
            rest = process.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        print(f"{number.name} at {phase}: ended after {time.monotonic() - begin:.1f} s")
        return process.returncode, rest

    def test_ctrl_c_leaves_nothing_where_that_is_asked_for(self):
        for phase in ("weights", "self-test", "hashing"):
            with self.subTest(phase):
                code, rest = self.interrupt_at(phase, signal.SIGINT, "--no-resume")
                if phase == "hashing" and code == 0:
                    # The signal came after the last byte: hashing so small a package takes milliseconds.
                    testing.run("verify", self.target).check()
                    self.check_nothing_left(self.target)
                    continue
                self.assertNotIn(code, (0, 2), rest)
                lines = [line for line in rest.splitlines() if not re.match(r"[\w-]+ +\d+ %", line)]
                self.assertEqual(len(lines), 1, rest)
                self.assertRegex(lines[0], "interrupted|cancelled")
                self.check_nothing_left()

    def test_what_ctrl_c_or_a_kill_left_is_gone_on_with(self):
        testing.run("compile", testing.smollm2_gguf(), "-o", self.target).check()
        digest = (self.target / "paceline.json").read_bytes()
        for phase, number in (("weights", signal.SIGINT), ("self-test", signal.SIGKILL)):
            with self.subTest(phase):
                shutil.rmtree(self.target)
                code, rest = self.interrupt_at(phase, number)
                self.assertNotEqual(code, 0)
                self.assertFalse(self.target.exists())
                if number == signal.SIGINT:
                    self.assertIn("keeps what was done", rest)
                outcome = testing.run("compile", testing.smollm2_gguf(), "-o", self.target)
                outcome.check()
                self.assertIn("going on with an interrupted compile", outcome.stderr)
                self.assertEqual((self.target / "paceline.json").read_bytes(), digest)
                testing.run("verify", self.target).check()
                self.check_nothing_left(self.target)

    def test_a_kill_leaves_no_half_package_and_the_next_compile_tidies_up(self):
        code, _ = self.interrupt_at("weights", signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        self.assertFalse(self.target.exists())
        # The next compile of the same target, of whatever source.
        source = testing.kSourceDir / "tests/tiny_models/llama_tied"
        testing.run("compile", source, "-o", self.target).check()
        testing.run("verify", self.target).check()
        self.check_nothing_left(self.target)


class Arguments(testing.TestCase):
    def check(self, *arguments, named=()) -> None:
        with self.subTest(" ".join(map(str, arguments))):
            outcome = testing.run(*arguments, timeout=60)
            self.assert_user_error(outcome, *named)
            self.assertEqual(outcome.stdout, b"")

    def test_unknown_or_missing(self):
        self.check("frobnicate", named=["--help"])
        self.check()
        self.check("compile", named=["source"])
        self.check("compile", "/tmp", named=["--output"])
        self.check("generate", "hello", named=["--package"])
        self.check("relay", named=["--to"])

    def test_generate(self):
        generate = ("generate", "-p", testing.smollm2_package())
        self.check(*generate, "--frobnicate", named=["--frobnicate"])
        self.check(*generate, "x", "--stages", 0, named=["--stages"])
        self.check(*generate, "x", "--stages", 31, named=["30"])
        self.check(*generate, "x", "--stages", 2, "--workers", "127.0.0.1:1", named=["--workers"])
        self.check(*generate, "x", "--workers", "nonsense", named=["nonsense"])
        self.check(*generate, "x", "--split", "1,2,3", "--stages", 2, named=["--split"])
        self.check(*generate, "x", "--split", "1,x", "--stages", 2, named=["--split"])
        self.check(*generate, "x", "--profile", "slow", named=["--profile", "slow"])
        self.check(*generate, "x", "--temperature", -1, named=["temperature"])
        self.check(*generate, "x", "--top-p", 1.5, named=["top_p"])
        self.check(*generate, "x", "-n", 0, named=["--max-tokens"])
        self.check(*generate, "x", "--ctx", "many", named=["--ctx"])
        self.check(*generate, "--prompts", "/nowhere/prompts", named=["/nowhere/prompts"])
        self.check(*generate, "--prompt-ids", "1,999999", named=["999999", "49151"])
        self.check(*generate, "--prompt-ids=-4", named=["token -4"])
        self.check(*generate, "--prompt-ids", "1,x", named=["--prompt-ids"])
        self.check(*generate, "", named=["empty"])

    def test_worker_and_relay(self):
        self.check("worker", "--listen", "0.0.0.0:0", named=["0.0.0.0", "--insecure"])
        self.check("worker", "--listen", "127.0.0.1:99999", named=["127.0.0.1:99999"])
        self.check("relay", "--to", "127.0.0.1:1", "--listen", "0.0.0.0:0", named=["0.0.0.0"])
        with testing.worker() as first:
            outcome = testing.run("worker", "--listen", first.address)
            self.assert_error(outcome, first.address)

    def test_help_is_no_error(self):
        self.assertIn(b"compile", testing.run("--help").check().stdout)
        self.assertIn(b"--stages", testing.run("generate", "--help").check().stdout)
        self.assertRegex(testing.run("--version").check().stdout, rb"^\d+\.\d+\.\d+")


if __name__ == "__main__":
    unittest.main()
