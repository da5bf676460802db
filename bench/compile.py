#!/usr/bin/env python3
"""Compiles random-weight directories of real configurations under a hard limit of memory: the peak,
how it grows with layers, and the speed beside plain copies of the same bytes.

Memory: a cgroup's hard limit where this user may make one, else only the peak is looked at. The peak
is the resident memory of the process (ru_maxrss), file pages that it maps included.
Speed: cold cache on both sides, interleaved. The copy reads all of the source and writes as many bytes
as the package has.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import time

import judgement
import models
import random_hf
from servers import PACELINE

LIMIT_BYTES = 3 << 29  # 1.5 GiB
LARGE_LAYER_LIMIT_BYTES = 3 << 30
GROWTH_BOUND = 1.05  # peak of 32 layers / peak of 8
COPY_BLOCK_BYTES = 4 << 20
CGROUPS = (pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup"))
WORK = models.DIRECTORY / "compile"


class MemoryLimit:
    """A cgroup of its own with a hard limit for the children that enter it."""

    def __init__(self, limit_bytes: int):
        self._folder = None
        for root in CGROUPS:
            folder = root / f"paceline-bench-{os.getpid()}-{limit_bytes}"
            try:
                folder.mkdir()
            except OSError:
                continue
            for name in ("memory.limit_in_bytes", "memory.max"):
                if (folder / name).exists():
                    (folder / name).write_text(str(limit_bytes))
                    self._folder = folder
                    return
            folder.rmdir()

    @property
    def is_hard(self) -> bool:
        return self._folder is not None

    def enter(self) -> None:
        if self._folder:
            (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def close(self) -> None:
        if self._folder:
            self._folder.rmdir()


def forget(folder: pathlib.Path) -> None:
    """The files' pages leave the cache."""
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def bytes_of(folder: pathlib.Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def run_limited(arguments: list[str], limit: MemoryLimit) -> tuple[float, int]:
    """Seconds until the command's output is on the disk, and its peak resident bytes."""
    begin = time.monotonic()
    process = subprocess.Popen(arguments, preexec_fn=limit.enter, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: exit code {process.returncode}")
    os.sync()
    return time.monotonic() - begin, usage.ru_maxrss * 1024


def compile_(source: pathlib.Path, limit: MemoryLimit, *flags: str) -> tuple[float, int, int]:
    """Seconds, peak bytes, bytes of the package (which is deleted)."""
    package = WORK / "package"
    shutil.rmtree(package, ignore_errors=True)
    forget(source)
    seconds, peak = run_limited([str(PACELINE), "compile", str(source), "-o", str(package), *flags], limit)
    size = bytes_of(package)
    shutil.rmtree(package)
    return seconds, peak, size


def copy(source: pathlib.Path, write_bytes: int, limit: MemoryLimit) -> float:
    """Seconds for reading the source and writing as much as the package has."""
    forget(source)
    target = WORK / "copy"
    script = (
        "import pathlib, sys\n"
        "block = int(sys.argv[4]); left = int(sys.argv[3])\n"
        "with open(sys.argv[2], 'wb') as out:\n"
        "    for file in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
        "        with open(file, 'rb', buffering=0) as source:\n"
        "            while data := source.read(block):\n"
        "                left -= out.write(data[:left])\n"
    )
    seconds, _ = run_limited(
        [str(models.PYTHON), "-c", script, str(source), str(target), str(write_bytes), str(COPY_BLOCK_BYTES)],
        limit)
    target.unlink()
    return seconds


def source_of(name: str, layers: int) -> pathlib.Path:
    folder = WORK / f"{name}-{layers}-hf"
    if not folder.exists():
        temporary = folder.with_suffix(".making")
        shutil.rmtree(temporary, ignore_errors=True)
        random_hf.write(temporary, name, models.smollm2(), layers)
        temporary.rename(folder)
    return folder


def measure_memory(keep: bool) -> tuple[dict[str, int], bool]:
    """Peaks by case, and whether every limit was a hard one."""
    peaks, hard = {}, True
    for name, layers, limit_bytes in (("8b", 8, LIMIT_BYTES), ("8b", 16, LIMIT_BYTES),
                                      ("8b", 32, LIMIT_BYTES), ("70b", 1, LARGE_LAYER_LIMIT_BYTES)):
        source = source_of(name, layers)
        limit = MemoryLimit(limit_bytes)
        hard = hard and limit.is_hard
        seconds, peak, size = compile_(source, limit)
        limit.close()
        print(f"{name:4} {layers:3} layers  source {bytes_of(source) / 2**30:6.2f} GiB  package "
              f"{size / 2**30:6.2f} GiB  {seconds:7.1f} s  peak {peak / 2**20:7.0f} MiB of "
              f"{limit_bytes / 2**20:.0f} {'(hard limit)' if limit.is_hard else '(not enforced)'}", flush=True)
        peaks[f"{name}.{layers}"] = peak
        if not keep:
            shutil.rmtree(source)
    return peaks, hard


def measure_speed(blocks: int) -> dict[str, judgement.Ratio]:
    """Speed of compiles relative to plain copies."""
    source = source_of("1b", 0)
    limit = MemoryLimit(LIMIT_BYTES)
    times = {"copy": [], "max-abs": [], "search": []}
    for block in range(-1, blocks):  # the block -1 warms up
        fast, _, size = compile_(source, limit, "--search", "off")
        searched, _, _ = compile_(source, limit, "--search", "on")
        copied = copy(source, size, limit)
        if block >= 0:
            for name, seconds in (("copy", copied), ("max-abs", fast), ("search", searched)):
                times[name].append(seconds)
    limit.close()
    gibibytes = bytes_of(source) / 2**30
    ratios = {}
    for name, seconds in times.items():
        ratios[name] = judgement.paired_ratio([1 / s for s in seconds], [1 / s for s in times["copy"]])
        print(f"1b  {name:8} {gibibytes / sorted(seconds)[len(seconds) // 2]:6.2f} GiB/s of the source; of the "
              f"copy {ratios[name].median:.3f} [{ratios[name].low:.3f}-{ratios[name].high:.3f}]")
    return {f"speed.{name}": ratios[name] for name in ("max-abs", "search")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=judgement.MINIMUM_BLOCKS)
    parser.add_argument("--keep", action="store_true", help="the sources (60 GB) for the next run")
    parser.add_argument("--only", choices=("memory", "speed"))
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    targets, ratios = [], {}
    if arguments.only != "speed":
        peaks, hard = measure_memory(arguments.keep)
        if not hard:
            print("NOTE: no cgroup could be made here: the limits were not enforced")
        at_most = [("memory.8b", peaks["8b.32"] / LIMIT_BYTES, 1.0),
                   ("memory.70b-layer", peaks["70b.1"] / LARGE_LAYER_LIMIT_BYTES, 1.0),
                   ("memory.growth", peaks["8b.32"] / peaks["8b.8"], GROWTH_BOUND)]
        targets += [judgement.Target.exact(name, value, bound, at_least=False)
                    for name, value, bound in at_most]
    if arguments.only != "memory":
        ratios = measure_speed(arguments.blocks)
        targets += [judgement.Target(name, ratios[name].median, bound, blocks=arguments.blocks)
                    for name, bound in (("speed.max-abs", 0.5), ("speed.search", 0.25))]
    print(judgement.report_line("compile", ratios, targets))


if __name__ == "__main__":
    main()
