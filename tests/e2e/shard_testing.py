"""For tests of parts of packages."""

import shutil
from pathlib import Path

import paceline_testing as testing

kGenerate = ("-n", 16, "--ctx", 128, "--json", "--digests", "--ignore-eos")


def fresh(name: str) -> Path:
    path = testing.temporary_directory() / name
    shutil.rmtree(path, ignore_errors=True)
    return path


def stored_bytes(package: Path) -> int:
    return (package / "openvino_model.bin").stat().st_blocks * 512


def fetch(source, target: Path, *arguments) -> testing.Outcome:
    return testing.run("shard", "fetch", source, "-o", target, *arguments)
