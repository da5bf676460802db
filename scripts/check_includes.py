#!/usr/bin/env python3
"""Holds the direction of dependencies by reading the #include lines of src/ and apps/.

A folder may include only the folders listed for it. Pure folders may include no I/O, clock or
thread header; only some folders may include OpenVINO or Asio. Exits 1 and names each offence.
`--self-test` feeds the check a bad line of each kind and expects to see it refused.
"""

import argparse
import pathlib
import re
import sys

ALLOWED = {
    "base": set(),
    "system": {"base"},
    "model": {"base", "system"},
    "text": {"base", "system", "model"},
    "shard": {"base", "system"},
    "plan": {"base"},
    "load": {"base"},
    "kv": {"base"},
    "spec": {"base", "sampling"},
    "sched": {"base", "kv", "spec"},
    "sampling": {"base"},
    "wire": {"base", "sampling"},
    "net": {"base", "wire"},
    "cut": {"base"},
    "compiler": {"base", "system", "model", "text", "shard", "cut"},
    "engine": {"base", "system", "shard", "cut"},
    "draft": {"base", "system", "shard", "kv", "sampling", "spec", "engine"},
    "worker": {"base", "system", "text", "shard", "sampling", "wire", "net", "engine"},
    "coordinator": {"base", "system", "text", "shard", "plan", "kv", "spec", "sched",
                    "sampling", "wire", "net"},
    "http": {"base", "system"},
    "page": {"base", "http"},
    "obs": {"base"},
    "api": {"base", "sampling"},
    "rest": {"http", "api"},
    "batch": {"base", "system", "http", "api", "rest"},
    "serve": {"base", "system", "text", "shard", "sched", "sampling", "wire", "coordinator", "http",
              "obs", "api", "rest"},
    "cli": {"base", "system", "model", "text", "shard", "plan", "load", "kv", "spec", "sched",
            "sampling", "wire", "net", "cut", "compiler", "engine", "draft", "worker",
            "coordinator", "http", "obs", "api", "batch", "serve",
            "page"},
    "apps": {"cli"},
}
PURE = {"base", "plan", "load", "kv", "spec", "sched", "sampling", "wire", "api"}
IMPURE_HEADERS = re.compile(
    r"^(thread|mutex|condition_variable|future|fstream|iostream|filesystem|sys/.*|unistd\.h|"
    r"fcntl\.h|netinet/.*|arpa/.*|time\.h|ctime|random)$")
# base/clock.h declares the Clock that the others get; no other pure folder reads a clock.
CLOCK_READ = re.compile(r"(steady|system|high_resolution)_clock::now\(")
OPENVINO_FOLDERS = {"cut", "compiler", "engine"}
ASIO_FOLDERS = {"net", "http"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def line_offences(folder: str, line: str) -> list[str]:
    found = []
    if folder in PURE - {"base"} and CLOCK_READ.search(line):
        found.append(f"pure folder {folder} reads a clock")
    match = INCLUDE.match(line)
    if not match:
        return found
    header = match.group(2)
    top = header.split("/")[0]
    ours = match.group(1) == '"' and "/" in header and top in ALLOWED
    if ours and top != folder and top not in ALLOWED[folder]:
        found.append(f"{folder} may not include {top}")
    if header.endswith("_testing.h"):
        found.append(f"only tests may include {header}")
    if folder in PURE and IMPURE_HEADERS.match(header):
        found.append(f"pure folder {folder} includes {header}")
    if top == "openvino" and folder not in OPENVINO_FOLDERS:
        found.append(f"only {sorted(OPENVINO_FOLDERS)} may include OpenVINO")
    if header.startswith(("boost/asio", "boost/beast")) and folder not in ASIO_FOLDERS:
        found.append(f"only {sorted(ASIO_FOLDERS)} may include Asio")
    return found


def offences(path: str, text: str) -> list[str]:
    """The offences of one file; `path` is relative to the project's root. Tests are free, and so are
    their helpers, *_testing.{h,cc}, which in turn only tests may include."""
    parts = pathlib.PurePosixPath(path).parts
    folder = parts[1] if parts[0] == "src" else parts[0]
    if folder not in ALLOWED:
        return [f"{path}: folder {folder} is not in scripts/check_includes.py"]
    if path.endswith(("_test.cc", "_bench.cc", "_fuzz.cc", "_testing.h", "_testing.cc")):
        return []
    return [f"{path}:{number}: {offence}"
            for number, line in enumerate(text.splitlines(), 1)
            for offence in line_offences(folder, line)]


def self_test() -> None:
    bad = [
        ("src/base/a.h", '#include "wire/codec.h"'),
        ("src/wire/a.cc", "#include <thread>"),
        ("src/kv/a.cc", "auto t = std::chrono::steady_clock::now();"),
        ("src/worker/a.cc", "#include <openvino/openvino.hpp>"),
        ("src/worker/a.cc", "#include <boost/asio.hpp>"),
        ("src/wire/a.cc", '#include "wire/frames_testing.h"'),
        ("src/unheard/a.cc", ""),
    ]
    for path, line in bad:
        if not offences(path, line):
            sys.exit(f"self-test: {path}: {line!r} was not refused")
    if offences("src/net/a.cc", '#include <boost/asio.hpp>\n#include "wire/codec.h"'):
        sys.exit("self-test: a good file was refused")
    if offences("src/wire/frames_testing.cc", '#include <random>\n#include "wire/frames_testing.h"'):
        sys.exit("self-test: a helper of tests was refused")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).parents[1], type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
    found = []
    for pattern in ("src/*/*.h", "src/*/*.cc", "apps/*.cc"):
        for file in sorted(arguments.root.glob(pattern)):
            relative = file.relative_to(arguments.root).as_posix()
            found += offences(relative, file.read_text())
    print("\n".join(found) if found else "includes: every dependency points the right way")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
