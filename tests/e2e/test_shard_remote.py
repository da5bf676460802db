"""Layers fetched from a running worker: interrupted and gone on with, refused where they are wrong, and
from peers that answer as no worker would."""

import json
import os
import signal
import socket
import threading
import time
import unittest

import paceline_testing as testing
import paceline_wire as wire
from shard_testing import fetch, fresh, kGenerate, stored_bytes


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


if __name__ == "__main__":
    unittest.main()
