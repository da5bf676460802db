"""Parts of packages: exported stages run in plain OpenVINO, layers are fetched from a directory and
from a running worker, interrupted and gone on with, refused where they are wrong; the cache of
compiled forms."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest
from pathlib import Path

import numpy as np
import openvino

import paceline_testing as testing
import paceline_wire as wire

kExportedTinyModels = ("llama_tied", "gemma2", "qwen3_moe", "opt")
kGenerate = ("-n", 16, "--ctx", 128, "--json", "--digests", "--ignore-eos")


def fresh(name: str) -> Path:
    path = testing.temporary_directory() / name
    shutil.rmtree(path, ignore_errors=True)
    return path


def stored_bytes(package: Path) -> int:
    return (package / "openvino_model.bin").stat().st_blocks * 512


def fetch(source, target: Path, *arguments) -> testing.Outcome:
    return testing.run("shard", "fetch", source, "-o", target, *arguments)


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


class RemoteFetches(testing.TestCase):
    """From a running worker."""

    def setUp(self):
        self.package = testing.smollm2_package()
        self.target = fresh("remote")
        self.digest = json.loads(testing.run("inspect", self.package, "--json").check().stdout)["digest"]

    def test_layers_come_over_the_wire_and_a_chain_runs_on_them(self):
        server = self.start(testing.worker(self.package))
        outcome = fetch(server.address, self.target, "--layers", "15:30", "--digest", self.digest)
        outcome.check()
        self.assertRegex(outcome.stderr, r"fetching +100 %")
        testing.run("verify", self.target, "--layers", "15:30").check()
        first = self.start(testing.worker(self.package))
        second = self.start(testing.worker(self.target))
        whole = testing.run(
            "generate", "-p", self.package, "The sea", "--stages", 1, *kGenerate
        ).check().json()[0]  # fmt: skip
        chain = testing.run(
            "generate", "-p", self.package, "The sea", "--split", "15,15", *kGenerate,
            "--workers", testing.addresses(first, second),
        ).check().json()[0]  # fmt: skip
        self.assertEqual(chain["tokens"], whole["tokens"])
        self.assertEqual(chain["logits_digests"], whole["logits_digests"])
        # A node with a sparse package serves its range on, and no other.
        third = fresh("third")
        fetch(second.address, third, "--layers", "20:30").check()
        testing.run("verify", third, "--layers", "20:30").check()
        self.assert_user_error(fetch(second.address, third, "--layers", "10:30"), second.address, "missing")

    def test_killed_in_the_middle_the_next_takes_what_is_missing(self):
        server = self.start(testing.worker(self.package))
        # 4 MB/s: SmolLM2 takes 20 s.
        slow = self.start(testing.relay(server, "--mbit", 32))
        with testing.Command("shard", "fetch", slow.address, "-o", self.target) as command:
            weights = self.target / "openvino_model.bin"
            deadline = time.monotonic() + 60
            while not weights.exists() or stored_bytes(self.target) < 17 * 2**20:
                self.assertIsNone(command.process.poll(), "ended before it was killed")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            command.process.kill()
            command.process.wait()
        self.assertFalse((self.target / "paceline.json").exists(), "no package yet")
        self.assert_user_error(testing.run("verify", self.target), "is not a package")
        report = json.loads(fetch(server.address, self.target, "--json").check().stdout)
        self.assertGreater(report["present_bytes"], 15 * 2**20)
        self.assertLess(report["fetched_bytes"], weights.stat().st_size - 15 * 2**20)
        testing.run("verify", self.target).check()
        self.assertEqual(
            sorted(os.listdir(self.target)), sorted(os.listdir(self.package)), "nothing else is left"
        )

    def test_ctrl_c_and_a_broken_link(self):
        server = self.start(testing.worker(self.package))
        slow = self.start(testing.relay(server, "--mbit", 16))
        with testing.Command("shard", "fetch", slow.address, "-o", self.target) as command:
            while not (self.target / "openvino_model.bin").exists():
                self.assertIsNone(command.process.poll())
                time.sleep(0.05)
            command.process.send_signal(signal.SIGINT)
            self.assert_error(command.wait(20), "interrupted", code=1)
        with testing.Command("shard", "fetch", slow.address, "-o", self.target) as command:
            time.sleep(1.0)
            slow.close()
            self.assert_error(command.wait(20), slow.address, code=1)
        fetch(server.address, self.target).check()

    def test_steps_go_on_while_pieces_are_served(self):
        server = self.start(testing.worker(self.package))
        alone = testing.run(
            "generate", "-p", self.package, "The sea", "--workers", server.address, *kGenerate
        ).check().json()[0]  # fmt: skip
        ended = threading.Event()
        outcomes = []

        def fetch_again_and_again() -> None:
            while not ended.is_set():
                outcomes.append(fetch(server.address, fresh("busy")))

        thread = threading.Thread(target=fetch_again_and_again)
        thread.start()
        try:
            beside = testing.run(
                "generate", "-p", self.package, "The sea", "--workers", server.address, *kGenerate
            ).check().json()[0]  # fmt: skip
        finally:
            ended.set()
            thread.join()
        self.assertEqual(beside["tokens"], alone["tokens"])
        self.assertEqual(beside["logits_digests"], alone["logits_digests"])
        for outcome in outcomes:
            outcome.check()

    def test_other_digests_and_nobody(self):
        server = self.start(testing.worker(self.package))
        outcome = fetch(server.address, self.target, "--digest", "2" * 64)
        self.assert_user_error(outcome, server.address, self.digest)
        self.assert_error(fetch("127.0.0.1:1", self.target), "127.0.0.1:1")
        several = self.start(testing.worker(self.package, "--package", testing.tiny_package("opt")))
        self.assert_user_error(fetch(several.address, self.target), "--digest", self.digest)
        self.assertFalse(self.target.exists())


class HostileWorkers(testing.TestCase):
    """A socket that answers as no worker would."""

    def serve(self, answer) -> int:
        """Accepts one connection, greets, and answers each ReadPiece with what `answer` gives."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def run() -> None:
            connection, _ = listener.accept()
            with wire.Peer(connection=connection) as peer:
                try:
                    peer.receive()
                    held = wire.field(1, "a" * 64) + wire.field(2, "a model")
                    peer.send(wire.Frame(wire.kWelcome, wire.field(1, 2) + wire.field(6, held)))
                    while True:
                        fields = peer.receive().fields()
                        peer.send(answer(fields))
                except (OSError, EOFError, AssertionError):
                    pass  # it has gone, as it should

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return listener.getsockname()[1]

    def check(self, answer, *named: str) -> None:
        target = fresh("hostile")
        outcome = fetch(f"127.0.0.1:{self.serve(answer)}", target)
        self.assert_error(outcome, "127.0.0.1", *named)
        self.assertLess(outcome.seconds, 30)
        self.assertFalse(target.exists())

    @staticmethod
    def piece(offset: int, data: bytes, file_bytes: int, **changes) -> bytes:
        tensor = (
            wire.field(1, "piece") + wire.field(2, 6) + wire.packed(3, [len(data)]) + wire.field(4, len(data))
        )
        body = wire.field(1, offset) + wire.field(2, file_bytes)
        frame = wire.Frame(wire.kPiece, body, version=2, payload=data, tensors=wire.field(1, tensor))
        return frame.encode(**changes)

    def test_wrong_manifests(self):
        self.check(lambda _: self.piece(0, b"{}", 2), "digest")
        self.check(lambda _: self.piece(0, bytes(2**20), 2**40), "at most")
        self.check(lambda _: self.piece(7, b"{}", 9), "offset 7")
        self.check(lambda _: self.piece(0, b"{}", 1), "piece")
        self.check(lambda _: self.piece(0, bytes(2**20 + 1), 2**21), "payload_bytes")
        self.check(lambda _: self.piece(0, b"{}", 2, payload_bytes=2**50), "payload_bytes")
        self.check(lambda _: wire.Frame(wire.kPong, wire.field(1, 1)).encode(), "pong")
        self.check(lambda _: b"HTTP/1.1 200 OK\r\n\r\n" * 9, "magic")
        self.check(lambda _: self.piece(0, b"x", 9) * 50)


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
