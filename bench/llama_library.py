"""llama.cpp with its RPC backend, built from the source archive of the package llama-cpp-python.

Built once in build/bench/llama (minutes). PACELINE_LLAMA_DIR names a folder that has it already: the unpacked
archive as `source`, its build as `build`.
"""

import dataclasses
import os
import pathlib
import subprocess
import sys
import tarfile

import models


@dataclasses.dataclass(frozen=True)
class Library:
    libraries: pathlib.Path  # libllama and libggml
    binding: pathlib.Path  # the ctypes binding of just that version


def _unpacked(folder: pathlib.Path) -> pathlib.Path:
    source = folder / "source"
    if not source.exists():
        requirements = pathlib.Path(__file__).with_name("llama-requirements.txt")
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--no-binary", ":all:", "--no-build-isolation", "-d", str(folder), "-r", str(requirements)],
            check=True,
        )
        making = folder / "unpacking"
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            archive.extractall(making, filter="data")
        next(making.iterdir()).rename(source)
        making.rmdir()
    return source


def _folder() -> pathlib.Path:
    named = os.environ.get("PACELINE_LLAMA_DIR")
    return pathlib.Path(named) if named else models.DIRECTORY / "llama"


def is_built() -> bool:
    return (_folder() / "build" / "bin" / "libllama.so").exists()


def library() -> Library:
    """Built where it is not there."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    source = _unpacked(folder)
    build = folder / "build"
    if not is_built():
        options = ["GGML_RPC=ON", "GGML_NATIVE=ON", "BUILD_SHARED_LIBS=ON", "CMAKE_BUILD_TYPE=Release",
                   "LLAMA_CURL=OFF", "LLAMA_BUILD_TESTS=OFF", "LLAMA_BUILD_EXAMPLES=OFF", "LLAMA_BUILD_SERVER=OFF"]  # fmt: skip
        subprocess.run(["cmake", "-G", "Ninja", "-S", str(source / "vendor" / "llama.cpp"), "-B", str(build),
                        *(f"-D{option}" for option in options)], check=True, stdout=sys.stderr)  # fmt: skip
        subprocess.run(["ninja", "-C", str(build), "llama"], check=True, stdout=sys.stderr)
    return Library(build / "bin", source / "llama_cpp")
