"""The cache of compiled forms."""

import json
import unittest
from pathlib import Path

import paceline_testing as testing
from shard_testing import fresh


class Precompiling(testing.TestCase):
    def precompile(self, cache: Path, *arguments) -> dict:
        package = testing.tiny_package("qwen3")
        outcome = testing.run("precompile", package, "--cache", cache, "--json", *arguments)
        return json.loads(outcome.check().stdout)

    def test_fills_uses_mends_and_prunes(self):
        cache = fresh("forms")
        first = self.precompile(cache, "--layers", "0:2")
        self.assertFalse(first["was_there"])
        self.assertGreater(first["compile_ms"], 0)
        self.assertTrue(self.precompile(cache, "--layers", "0:2")["was_there"])
        (form,) = cache.iterdir()
        testing.flip_byte(form, form.stat().st_size // 2)
        outcome = testing.run("precompile", testing.tiny_package("qwen3"), "--cache", cache, "--layers", "0:2")
        self.assertIn("damaged", outcome.check().stderr)
        self.assertIn("compiled, the form is damaged", outcome.stdout.decode())
        self.assertTrue(self.precompile(cache, "--layers", "0:2")["was_there"])
        other = self.precompile(cache, "--layers", "0:2", "--threads", 2)
        self.assertIn("INFERENCE_NUM_THREADS", other["reason"])
        self.precompile(cache, "--layers", "2:4")
        testing.flip_byte(form, form.stat().st_size - 4090)
        report = json.loads(testing.run("precompile", "--prune", "--cache", cache, "--json").check().stdout)
        self.assertEqual((report["removed"], report["kept"]), (1, 1))

    def test_two_at_once(self):
        cache = fresh("shared-forms")
        package = testing.tiny_package("qwen3")
        both = [testing.Command("precompile", package, "--cache", cache) for _ in range(2)]
        for command in both:
            command.wait().check()
        self.assertEqual(len(list(cache.iterdir())), 1)
        self.assertTrue(self.precompile(cache)["was_there"])

    def test_paged_says_so_and_does_nothing(self):
        cache = fresh("no-forms")
        outcome = testing.run("precompile", testing.tiny_package("qwen3"), "--engine", "paged", "--cache", cache)
        self.assertRegex(outcome.check().stdout.decode(), r"nothing is done: .* does not import paged stages")
        self.assertEqual(list(cache.iterdir()), [])

    def test_wrong_arguments(self):
        package = testing.tiny_package("qwen3")
        cache = fresh("bad-forms")
        run = ("precompile", package, "--cache", cache)
        self.assert_user_error(testing.run(*run, "--device", "TPU"), "TPU", "CPU")
        self.assert_user_error(testing.run(*run, "--layers", "2:5"), "2:5", "0:4")
        self.assert_user_error(testing.run(*run, "--engine", "steam"), "--engine")
        self.assert_user_error(testing.run("precompile", "--cache", cache), "--prune")
        self.assert_user_error(testing.run("precompile", package, "--cache", "/proc/forms"), "/proc/forms")


if __name__ == "__main__":
    unittest.main()
