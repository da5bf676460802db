"""Parts of packages: exported stages run in plain OpenVINO, layers are fetched from a directory, refused
where they are wrong."""

import json
import os
import resource
import shutil
import subprocess
import unittest
from pathlib import Path

import numpy as np
import openvino

import paceline_testing as testing
from shard_testing import fetch, fresh, kGenerate, stored_bytes

kExportedTinyModels = ("llama_tied", "gemma2", "qwen3_moe", "opt")


class Exports(testing.TestCase):
    """Plain OpenVINO, in f32, on what `shard export` wrote."""

    kConfig = {**testing.kExactProperties, "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    kSteps = (9, 1, 3, 1)

    def export(self, package: Path, layers: str) -> Path:
        target = fresh(f"stage-{package.name}-{layers.replace(':', '-')}")
        outcome = testing.run("shard", "export", package, "--layers", layers, "-o", target, "--json")
        about = json.loads(outcome.check().stdout)
        self.assertEqual(about["weight_bytes"], (target / "openvino_model.bin").stat().st_size)
        return target

    def run_model(self, directory: Path, data: list[np.ndarray]) -> list[np.ndarray]:
        core = openvino.Core()
        compiled = core.compile_model(core.read_model(directory / "openvino_model.xml"), "CPU", self.kConfig)
        names = {name for port in compiled.inputs for name in port.names}
        request = compiled.create_infer_request()
        outputs, past = [], 0
        for values in data:
            tokens = values.shape[1]
            inputs = {
                "input_ids": values,
                "inputs_embeds": values,
                "attention_mask": np.ones((1, past + tokens), np.int64),
                "position_ids": np.arange(past, past + tokens, dtype=np.int64)[None],
                "beam_idx": np.zeros(1, np.int32),
            }
            result = request.infer({name: inputs[name] for name in names})
            outputs.append(next(iter(result.values())).copy())
            past += tokens
        return outputs

    def test_a_chain_in_plain_openvino_equals_the_whole_model(self):
        for name in kExportedTinyModels:
            with self.subTest(name):
                package = testing.tiny_package(name)
                random = np.random.default_rng(5)
                ids = [random.integers(0, 256, (1, tokens)) for tokens in self.kSteps]
                whole = self.run_model(package, ids)
                self.assertGreater(float(np.ptp(whole[0])), 0.0)
                data = ids
                for layers in ("0:1", "1:3", "3:4"):
                    data = self.run_model(self.export(package, layers), data)
                for ours, theirs in zip(whole, data, strict=True):
                    np.testing.assert_array_equal(ours, theirs)

    def test_only_its_own_bytes(self):
        package = testing.smollm2_package()
        manifest = json.loads((package / "paceline.json").read_text())
        stage = self.export(package, "10:12")
        needed = sum(
            extent["bytes"] for extent in manifest["weights"]["extents"]
            if any(part == "shared" or isinstance(part, list) and part[0] < 12 and 10 < part[1]
                   for part in extent["parts"])
        )  # fmt: skip
        size = (stage / "openvino_model.bin").stat().st_size
        self.assertLess(size, needed + 2**20)
        self.assertGreater(size, needed * 0.9)

    def test_what_cannot_be(self):
        package = testing.tiny_package("llama_tied")
        target = fresh("stage-none")
        export = ("shard", "export", package, "-o", target)
        self.assert_user_error(testing.run(*export), "--layers")
        self.assert_user_error(testing.run(*export, "--layers", "3:9"), "[3, 9)", "[0, 4)")
        self.assert_user_error(testing.run(*export, "--layers", "x"), "--layers")
        self.assertFalse(target.exists())
        outcome = testing.run("shard", "export", "/nowhere", "--layers", "0:1", "-o", target)
        self.assert_user_error(outcome, "/nowhere")


class Fetches(testing.TestCase):
    """From a directory."""

    def setUp(self):
        self.package = testing.smollm2_package()
        self.target = fresh("fetched")

    def json(self, *arguments) -> dict:
        outcome = fetch(self.package, self.target, "--json", *arguments).check()
        return json.loads(outcome.stdout)

    def verify(self, layers: str) -> testing.Outcome:
        return testing.run("verify", self.target, "--layers", layers)

    def test_a_range_and_later_another(self):
        first = self.json("--layers", "10:12")
        self.assertEqual(first["layers"], [10, 12])
        self.assertLess(stored_bytes(self.target), first["fetched_bytes"] + 2**20)
        self.assertIn("layers 10:12 are whole", self.verify("10:12").check().stdout.decode())
        self.assert_user_error(self.verify("10:13"), "missing")
        second = self.json("--layers", "11:13")
        self.assertLess(second["fetched_bytes"], first["fetched_bytes"])
        self.verify("10:13").check()
        whole = self.json()
        self.assertEqual(whole["layers"], [0, 30])
        about = json.loads(testing.run("verify", self.target, "--json").check().stdout)
        self.assertEqual(about["digest"], whole["digest"])
        self.assertEqual(self.json()["fetched_bytes"], 0)

    def test_a_fetched_range_runs(self):
        self.json("--layers", "10:30")
        lower = self.start(testing.worker(self.package))
        upper = self.start(testing.worker(self.target))
        whole = testing.run(
            "generate", "-p", self.package, "The sea", "--stages", 2, "--split", "10,20", *kGenerate
        ).check().json()[0]  # fmt: skip
        chain = testing.run(
            "generate", "-p", self.package, "The sea", "--split", "10,20", *kGenerate,
            "--workers", testing.addresses(lower, upper),
        ).check().json()[0]  # fmt: skip
        self.assertEqual(chain["tokens"], whole["tokens"])
        self.assertEqual(chain["logits_digests"], whole["logits_digests"])

    def test_wrong_arguments(self):
        target = self.target
        for layers in ("3", "5:5", "29:31", "a:b"):
            self.assert_user_error(fetch(self.package, target, "--layers", layers), layers.split(":")[0])
        self.assert_user_error(fetch("/nowhere", target), "/nowhere")
        self.assert_user_error(fetch(self.package, target, "--digest", "12"), "--digest")
        self.assert_user_error(fetch(self.package, target, "--digest", "1" * 64), "1" * 64)
        self.assert_user_error(fetch(testing.kSourceDir / "docs", target), "is not a package")
        self.assertFalse(target.exists())
        other = testing.tiny_package("llama_tied")
        fetch(other, target).check()
        self.assert_user_error(fetch(self.package, target), "choose another directory")
        foreign = fresh("foreign")
        foreign.mkdir()
        (foreign / "letter").write_text("dear")
        self.assert_user_error(fetch(self.package, foreign), "not empty")
        self.assertEqual(os.listdir(foreign), ["letter"])

    def test_a_changed_byte_of_the_source_is_named_and_does_not_arrive(self):
        source = testing.copy_package("changed-source")
        weights = source / "openvino_model.bin"
        shutil.copy(weights, source / "copy")
        (source / "copy").replace(weights)
        manifest = json.loads((source / "paceline.json").read_text())
        extent = next(e for e in manifest["weights"]["extents"] if [20, 21] in e["parts"])
        testing.flip_byte(weights, extent["offset"] + extent["bytes"] // 2)
        outcome = fetch(source, self.target, "--layers", "19:22")
        self.assert_user_error(outcome, weights, "is damaged")
        self.assertFalse((self.target / "paceline.json").exists())
        self.assertEqual(self.json("--layers", "19:22")["layers"], [19, 22])
        self.verify("19:22").check()

    def test_a_file_that_may_not_grow(self):
        limit = 32 * 2**20

        def limited() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        command = [testing.binary(), "shard", "fetch", str(self.package), "-o", str(self.target)]
        ended = subprocess.run(command, preexec_fn=limited, capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 2, ended.stderr)
        self.assertIn("openvino_model.bin", ended.stderr)
        self.assertIn("File too large", ended.stderr)
        self.json()
        self.verify("0:30").check()

    def test_a_small_disk(self):
        mount = fresh("small-disk")
        mount.mkdir()
        script = (
            f"mount -t tmpfs -o size=48m none {mount} && "
            f"{testing.binary()} shard fetch {self.package} -o {mount}/target; code=$?; "
            f"ls {mount}; exit $code"
        )
        ended = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        if "mount:" in ended.stderr or "unshare:" in ended.stderr:
            self.skipTest(f"mounting is not allowed here: {ended.stderr}")
        self.assertEqual(ended.returncode, 2, ended.stderr)
        self.assertIn("MiB of disk are free", ended.stderr)
        self.assertEqual(ended.stdout, "", "left behind")


if __name__ == "__main__":
    unittest.main()
