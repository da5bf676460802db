"""Compiles SmolLM2 for all tests of a ctest run (fixture e2e_package), or removes it (--remove)."""

import os
import shutil
import sys
import unittest
from pathlib import Path

import paceline_testing as testing


def main() -> int:
    target = Path(os.environ["PACELINE_E2E_PACKAGE"])
    shutil.rmtree(target, ignore_errors=True)
    if "--remove" in sys.argv:
        return 0
    try:
        source = testing.smollm2_gguf()
    except unittest.SkipTest as reason:
        print(reason)  # the tests that need it skip themselves
        return 0
    print(testing.run("compile", source, "-o", target).check())
    return 0


if __name__ == "__main__":
    sys.exit(main())
