"""Workers that die or hang, links that break, peers that talk nonsense: the command ends with one line
that names the culprit, and the workers that live serve the next command."""

import os
import signal
import time
import unittest

import paceline_testing as testing
import paceline_wire as wire

kEndsWithin = 5.0  # seconds from a worker's death to the command's end
kLong = ("-n", 4000, "--ignore-eos", "--ctx", 4096)


def generate(workers: str, *arguments, **options) -> testing.Outcome:
    package = testing.smollm2_package()
    return testing.run("generate", "-p", package, "--workers", workers, *arguments, **options)


class FaultCase(testing.TestCase):
    def worker(self, *arguments) -> testing.Server:
        return self.start(testing.worker(testing.smollm2_package(), *arguments))

    def relay(self, to: testing.Server, *arguments) -> testing.Server:
        return self.start(testing.relay(to, *arguments))

    def assert_serves(self, *servers: testing.Server) -> None:
        """A command over these workers is answered as by local ones."""
        for server in servers:
            self.assertTrue(server.is_running(), server.log())
        flags = ("The sea", "-n", 6, "--json", "--ctx", 128, "--ignore-eos")
        outcome = generate(testing.addresses(*servers), *flags)
        self.assertEqual(len(outcome.check().json()[0]["tokens"]), 6)


class LostWorkers(FaultCase):
    def answering(self, *workers: testing.Server) -> testing.Command:
        """A command in mid-answer."""
        command = testing.Command(
            "generate", "-p", testing.smollm2_package(), "--workers", testing.addresses(*workers),
            "Once upon a time", *kLong,
        )  # fmt: skip
        self.addCleanup(command.__exit__)
        self.assertEqual(len(command.wait_for_output(20)), 20, "it ended too early")
        return command

    def check_lost(self, number: signal.Signals, place: int, count: int = 2) -> None:
        workers = [self.worker() for _ in range(count)]
        command = self.answering(*workers)
        workers[place].signal(number)
        begin = time.monotonic()
        outcome = command.wait(60)
        seconds = time.monotonic() - begin
        self.assert_error(outcome, workers[place].address, code=1)
        self.assertLess(seconds, kEndsWithin, outcome)
        print(f"{number.name} of stage {place} of {count}: {seconds:.1f} s, {outcome.error_lines()}")
        workers[place].signal(signal.SIGKILL)
        left = [worker for index, worker in enumerate(workers) if index != place]
        if left:
            self.assert_serves(*left)

    def test_the_first_is_killed(self):
        self.check_lost(signal.SIGKILL, 0)

    def test_the_middle_is_killed(self):
        self.check_lost(signal.SIGKILL, 1, 3)

    def test_the_last_is_killed(self):
        self.check_lost(signal.SIGKILL, 1)

    def test_the_first_is_stopped(self):
        self.check_lost(signal.SIGSTOP, 0)

    def test_the_last_is_stopped(self):
        self.check_lost(signal.SIGSTOP, 1)

    def test_a_local_one_is_stopped(self):
        command = testing.Command(
            "generate", "-p", testing.smollm2_package(), "--stages", 2, "Once upon a time", *kLong
        )  # fmt: skip
        self.addCleanup(command.__exit__)
        command.wait_for_output(20)
        children = f"/proc/{command.process.pid}/task/{command.process.pid}/children"
        with open(children, encoding="ascii") as file:
            pids = list(map(int, file.read().split()))
        self.assertEqual(len(pids), 2)
        os.kill(pids[1], signal.SIGSTOP)
        begin = time.monotonic()
        outcome = command.wait(60)
        self.assertLess(time.monotonic() - begin, kEndsWithin, outcome)
        self.assert_error(outcome, "has not answered", code=1)
        for pid in pids:
            self.assertRaises(ProcessLookupError, os.kill, pid, 0)

    def test_the_command_is_killed(self):
        workers = [self.worker() for _ in range(2)]
        command = self.answering(*workers)
        command.process.kill()
        for worker in workers:
            worker.wait_for_log("released")
        self.assert_serves(*workers)

    def test_ctrl_c_ends_the_command_and_not_the_workers(self):
        workers = [self.worker() for _ in range(2)]
        command = self.answering(*workers)
        command.process.send_signal(signal.SIGINT)
        outcome = command.wait(20)
        self.assertEqual(outcome.code, 0, outcome)
        self.assert_serves(*workers)

    def test_nobody_listens(self):
        gone = testing.worker(testing.smollm2_package())
        gone.close()
        self.assert_error(generate(gone.address, "hello"), gone.address, code=1)

    def test_a_worker_without_the_package(self):
        server = self.start(testing.worker())
        outcome = generate(server.address, "hello")
        self.assert_user_error(outcome, server.address, "--package")


class BrokenLinks(FaultCase):
    """A relay in front of the second worker: of its connections, the coordinator's and the link."""

    def check_broken(self, *faults, within: float, named: str | None = None) -> None:
        first, second = self.worker(), self.worker()
        through = self.relay(second, *faults)
        begin = time.monotonic()
        outcome = generate(testing.addresses(first, through), "The sea", *kLong)
        self.assert_error(outcome, named or through.address)
        self.assertLess(time.monotonic() - begin, within, outcome)
        print(faults, outcome.error_lines())
        self.assert_serves(first, second)

    def test_cut(self):
        # In the greeting; in the assignment; in the boundary tensors.
        for count in (60, 250, 20_000):
            with self.subTest(bytes=count):
                self.check_broken("--cut-after", count, within=60)

    def test_flipped(self):
        # The magic, a length of the fixed header: both in the first frame.
        for place in (1, 34):
            with self.subTest(place=place):
                self.check_broken("--flip-at", place, within=60)

    def test_stalled_towards_the_only_worker(self):
        server = self.worker()
        through = self.relay(server, "--stall-after", 4000)
        begin = time.monotonic()
        outcome = generate(through.address, "The sea", *kLong)
        self.assert_error(outcome, through.address, "has not answered", code=1)
        self.assertLess(time.monotonic() - begin, 60, outcome)
        # The relay holds the dead link open; the worker has no other way to know.
        server.wait_for_log("silent for 10000 ms")
        self.assert_serves(server)

    def test_slow_and_whole(self):
        server = self.worker()
        through = self.relay(server, "--delay-ms", 20, "--mbit", 100)
        flags = ("The sea", "-n", 6, "--json", "--ctx", 128, "--digests")
        slow = generate(through.address, *flags).check().json()[0]
        fast = generate(server.address, *flags).check().json()[0]
        self.assertEqual(slow["logits_digests"], fast["logits_digests"])
        self.assertGreater(slow["decode_ms"], 5 * 2 * 20)


class ForeignPeers(FaultCase):
    """One worker for all tests here: each ends with it serving still."""

    @classmethod
    def setUpClass(cls):
        cls.server = testing.worker(testing.smollm2_package())
        cls.addClassCleanup(cls.server.close)

    def peer(self) -> wire.Peer:
        peer = wire.Peer(self.server.port)
        self.addCleanup(peer.__exit__)
        return peer

    def check_closed(self, data: bytes, reason: str, greet: bool = True) -> None:
        """The worker closes on `data`, says why in its log, and greets the next."""
        before = len(self.server.log())
        peer = self.peer()
        if greet:
            peer.greet()
        peer.send(data)
        self.assertTrue(peer.is_closed_within(15), "it stays open")
        deadline = time.monotonic() + 5
        while reason not in self.server.log()[before:]:
            self.assertLess(time.monotonic(), deadline, self.server.log()[before:])
            time.sleep(0.02)
        self.peer().greet()

    def test_garbage(self):
        self.check_closed(b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n" * 3, "magic", greet=False)
        self.check_closed(bytes(range(256)), "magic")

    def test_wrong_fixed_headers(self):
        hello = wire.hello()
        self.check_closed(hello.encode(magic=b"PACF"), "magic", greet=False)
        self.check_closed(hello.encode(header_bytes=2**32 - 1), "header", greet=False)
        self.check_closed(hello.encode(payload_bytes=2**64 - 1), "payload", greet=False)
        self.check_closed(hello.encode(flags=1), "flags", greet=False)
        step = wire.Frame(wire.kStep, b"", chain=1, epoch=1, step=1)
        self.check_closed(step.encode(payload_bytes=2**40), "payload")
        self.check_closed(wire.Frame(77).encode(), "kind")
        self.check_closed(wire.Frame(wire.kPing, wire.field(1, 1), version=4).encode(), "version")

    def test_wrong_messages(self):
        self.check_closed(wire.Frame(wire.kPing, b"\xff" * 20).encode(), "damaged")
        self.check_closed(wire.ping(1).encode(), "hello", greet=False)
        self.check_closed(wire.Frame(wire.kPong, wire.field(1, 1)).encode(), "pong")
        self.check_closed(wire.hello(role=9).encode(), "role", greet=False)
        step = wire.Frame(wire.kStep, b"", chain=5, epoch=1, step=1)
        self.check_closed(step.encode(), "not assigned")

    def test_wrong_tensor_sizes(self):
        shape = wire.packed(3, [2, 4])
        tensor = wire.field(1, "hidden") + wire.field(2, 1) + shape + wire.field(4, 31)
        step = wire.Frame(
            wire.kStep, b"", chain=1, epoch=1, step=1, payload=bytes(31), tensors=wire.field(1, tensor)
        )  # fmt: skip
        self.check_closed(step.encode(), "bytes")

    def test_half_a_frame(self):
        peer = self.peer()
        peer.send(wire.hello().encode()[:50])
        # A first frame has ten seconds; others are served meanwhile.
        self.peer().greet()
        self.assertTrue(peer.is_closed_within(14), "half a hello keeps the connection")
        for cut in (1, 20, 48):
            with wire.Peer(self.server.port) as other:
                other.send(wire.hello().encode()[:cut])
        self.peer().greet()

    def test_other_versions(self):
        with wire.Peer(self.server.port) as peer:
            peer.send(wire.hello(versions=(7, 9)))
            frame = peer.receive()
            self.assertEqual(frame.kind, wire.kFault)
            self.assertRegex(wire.fault_text(frame), r"speaks 1 to 3\b.*7.*9.*update this side")
            self.assertTrue(peer.is_closed_within(5))
        with wire.Peer(self.server.port) as peer:
            welcome = peer.greet(versions=(1, 9))
            self.assertEqual(welcome.fields()[1], [3])

    def test_zz_the_worker_serves_the_next(self):
        self.assert_serves(self.server)


def assign(peer: wire.Peer, welcome: wire.Frame, address: str, where: dict) -> None:
    digest = wire.parse(welcome.fields()[6][0])[1][0].decode()
    peer.send(wire.assign_whole_model(digest, 30, address, **where))
    peer.receive_kind(wire.kStageReady)


class Owners(FaultCase):
    kWhere = {"chain": 77, "epoch": 2, "stage": 0}

    def test_a_second_coordinator_is_refused_with_the_firsts_name(self):
        server = self.worker()
        with wire.Peer(server.port, timeout=60) as owner:
            assign(owner, owner.greet(name="desk-4 of Ada"), server.address, self.kWhere)
            outcome = generate(server.address, "hello")
            self.assert_user_error(outcome, server.address, "desk-4 of Ada")
            owner.send(wire.ping(1))
            owner.receive_kind(wire.kPong)
        server.wait_for_log("released")
        self.assert_serves(server)

    def test_late_and_foreign_steps_close_the_connection(self):
        server = self.worker()
        for change, reason in (
            ({"epoch": 1}, "epoch"), ({"step": 5}, "step"), ({"chain": 78}, "chain"),
            ({"epoch": 3}, "epoch"), ({"stage": 1}, "stage"),
        ):  # fmt: skip
            with self.subTest(change), wire.Peer(server.port, timeout=60) as owner:
                assign(owner, owner.greet(), server.address, self.kWhere)
                owner.send(wire.prefill([1, 2, 3], step=5, **self.kWhere))
                self.assertEqual(owner.receive_kind(wire.kStepResult).step, 5)
                owner.send(wire.prefill([1], **({"step": 6} | self.kWhere | change)))
                with self.assertRaisesRegex(AssertionError, reason):
                    owner.receive_kind(wire.kStepResult)
                self.assertTrue(owner.is_closed_within(5))
        self.assert_serves(server)


class Heartbeats(FaultCase):
    kPings = 100

    def test_pings_are_answered_during_a_long_prefill(self):
        server = self.worker()
        where = {"chain": 3, "epoch": 1, "stage": 0}
        with wire.Peer(server.port, timeout=60) as owner, wire.Peer(server.port) as other:
            other.greet(role=wire.kUpstreamStage)
            assign(owner, owner.greet(), server.address, where)
            # One step of many seconds on one thread.
            owner.send(wire.prefill([i * 7 % 40_000 for i in range(4000)], step=1, **where))
            busy, slowest, deadline = [0], 0.0, time.monotonic() + 60
            while busy[-1] < 2_000_000 and time.monotonic() < deadline:
                time.sleep(0.1)
                begin = time.monotonic()
                other.send(wire.ping(len(busy)))
                pong = other.receive_kind(wire.kPong).fields()
                slowest = max(slowest, time.monotonic() - begin)
                self.assertEqual(pong[1], [len(busy)])
                busy.append(pong.get(2, [0])[0])
            print(f"the slowest of {len(busy)} pongs took {slowest * 1000:.0f} ms")
            self.assertLess(slowest, 1.0)
            self.assertGreaterEqual(busy[-1], 2_000_000, "the prefill was too short for this test")
            growing = [b for a, b in zip(busy, busy[1:]) if b > a]
            self.assertGreaterEqual(len(growing), 5)

    def test_a_relay_delays_and_does_not_serialize(self):
        server = self.worker()
        through = self.relay(server, "--delay-ms", 50)
        with wire.Peer(through.port) as peer:
            peer.greet()
            begin = time.monotonic()
            peer.send(b"".join(wire.ping(nonce).encode() for nonce in range(1, self.kPings + 1)))
            nonces = [peer.receive_kind(wire.kPong).fields()[1][0] for _ in range(self.kPings)]
            seconds = time.monotonic() - begin
        self.assertEqual(nonces, list(range(1, self.kPings + 1)))
        print(f"{self.kPings} pings through 50 ms each way: {seconds * 1000:.0f} ms")
        self.assertGreaterEqual(seconds, 0.1)
        self.assertLess(seconds, 1.0)


if __name__ == "__main__":
    unittest.main()
