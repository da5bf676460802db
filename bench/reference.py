"""What transformers reads in a published file: token ids, logits, float weights. Kept in build/bench/quality.

The work is done by reference_reader.py in an environment of its own, which is made the first time: no part
of Paceline needs torch.
"""

import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np

import models

HERE = pathlib.Path(__file__).parent
READER = HERE / "reference_reader.py"
REQUIREMENTS = HERE / "reference-requirements.txt"
DIRECTORY = models.DIRECTORY / "quality"
GIVEN = "PACELINE_REFERENCE_PYTHON"
# Of a tokenizer, which transformers does not write here.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@functools.cache
def interpreter() -> str:
    """A Python that has the requirements."""
    if os.environ.get(GIVEN):
        return os.environ[GIVEN]
    environment = models.DIRECTORY / "reference-venv"
    stamp = environment / "requirements.txt"
    if not stamp.exists() or stamp.read_bytes() != REQUIREMENTS.read_bytes():
        print(f"making {environment} (torch: this takes minutes and gigabytes; {GIVEN} names another)",
              file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        subprocess.run(
            [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)],
            check=True,
        )
        shutil.copy(REQUIREMENTS, stamp)
    return str(environment / "bin" / "python")


def _read(command: str, *arguments) -> None:
    # The vendor's progress bars say nothing that the reader needs: shown only where it fails.
    process = subprocess.run(
        [interpreter(), str(READER), command, *map(str, arguments)],
        env=os.environ | {"HF_HUB_OFFLINE": "1"}, stderr=subprocess.PIPE, text=True,
    )
    if process.returncode:
        sys.exit(f"{READER.name} {command}: exit code {process.returncode}\n{process.stderr[-4000:]}")


def _key(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in (READER.read_bytes(), REQUIREMENTS.read_bytes(), *parts):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


def _digest(file: pathlib.Path) -> bytes:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def _once(name: str, make) -> pathlib.Path:
    """The file or directory of this name, made under another one first: it is there whole or not at all."""
    target = DIRECTORY / name
    if not target.exists():
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        making = target.with_name(f"making-{name}")
        shutil.rmtree(making, ignore_errors=True)
        make(making)
        making.rename(target)
    return target


def tokens(package: pathlib.Path, text: pathlib.Path) -> np.ndarray:
    """The text in the ids of a package's tokenizer.json, without special tokens."""
    tokenizer = package / "tokenizer.json"
    key = _key(tokenizer.read_bytes(), text.read_bytes())
    return np.load(_once(f"tokens-{key}.npy", lambda out: _read("tokens", tokenizer, text, out)))


def logits(gguf: pathlib.Path, windows: np.ndarray) -> np.ndarray:
    """f32 [windows, length, vocabulary], mapped from a file."""
    def make(out: pathlib.Path) -> None:
        ids = DIRECTORY / "windows.npy"
        np.save(ids, windows)
        _read("logits", gguf, ids, out)

    key = _key(_digest(gguf), str(windows.shape).encode(), windows.tobytes())
    return np.load(_once(f"logits-{key}.npy", make), mmap_mode="r")


def float_weights(gguf: pathlib.Path, package: pathlib.Path) -> pathlib.Path:
    """A Hugging Face directory: the GGUF's weights in f32, the tokenizer's files of its package."""
    def make(out: pathlib.Path) -> None:
        _read("export", gguf, out)
        for name in TOKENIZER_FILES:
            if (package / name).exists():
                shutil.copy(package / name, out)

    return _once(f"float-{_key(_digest(gguf), _digest(package / 'tokenizer.json'))}", make)
