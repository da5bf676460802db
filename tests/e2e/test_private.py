"""Private placement: with both ends of the model at home a chain gives the tokens and the bits of every logit that it
gives without, whatever is asked for, and the workers between get no token, prompt, history or sampling parameter:
every byte that comes to one is kept and looked through.
"""

import contextlib
import json
import socket
import struct
import threading
import time
import unittest
from pathlib import Path

import paceline_testing as testing
import paceline_wire as wire

kTokens = 24
kPrompts = [[201, 17, 233, 150, 99, 201, 17, 233, 150], [7], [201, 17, 233, 4, 8, 15, 16, 23, 42, 108], [5] * 40]
kSampling = ("--temperature", 0.8, "--seed", 987654321, "--repetition-penalty", 1.25, "--logprobs", 2)
kWithoutPart = {1, 2, 3, 7, 8}  # of a StepSequence: its number, past and new tokens, operations, blocks


def prompts_file() -> Path:
    path = testing.temporary_directory() / "private-prompts.txt"
    path.write_text("".join(json.dumps(prompt) + "\n" for prompt in kPrompts))
    return path


def generate(package: Path, *arguments, chosen=kSampling) -> list[dict]:
    outcome = testing.run(
        "generate", "-p", package, "--prompts", prompts_file(), "--profile", "exact", "--json", "--digests",
        "--ignore-eos", "-n", kTokens, "--threads", 1, "--ctx", 256, "--kv-memory", "64MB", "--parallel", 3,
        *chosen, *arguments,
    )  # fmt: skip
    return outcome.check().json()


def bits(answers: list[dict]) -> list[dict]:
    fields = ("prompt_ids", "choice", "tokens", "logits_digests", "logprobs", "top_logprobs", "prompt_logprobs")
    return [{name: answer[name] for name in fields if name in answer} for answer in answers]


class Recorder:
    """Stands before a worker, passes all bytes on, and keeps those that come to it, by connection."""

    def __init__(self, to: testing.Server):
        self._to = to.port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self.received: list[bytearray] = []
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # ends accept()
        for end in (self._listener, *self._ends):
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                front, _ = self._listener.accept()
                back = socket.create_connection(("127.0.0.1", self._to))
                self._ends += [front, back]
                self.received.append(bytearray())
                for ends in ((front, back, self.received[-1]), (back, front, bytearray())):
                    ends[1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                kept += piece
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def frames(self) -> list[wire.Frame]:
        return [frame for stream in self.received for frame in wire.frames_of(bytes(stream))]


def spellings(ids: list[int]) -> list[bytes]:
    """`ids` as bytes, in protobuf's way and as integers of four and eight."""
    return [b"".join(map(wire.varint, ids)), struct.pack(f"<{len(ids)}i", *ids), struct.pack(f"<{len(ids)}q", *ids)]


class Private(testing.TestCase):
    def between(self, package: Path, count: int = 2) -> str:
        return testing.addresses(*(self.start(testing.worker(package)) for _ in range(count)))

    def check_same(self, package: Path, layers: int, workers: str, asked: tuple, *how, chosen=kSampling) -> dict:
        """The chain's work, once the answers are those of one process."""
        expected = generate(package, "--speculation", "off", *asked, chosen=chosen)
        answers = generate(package, "--workers", workers, "--private-layers", layers, *asked, *how, chosen=chosen)
        self.assertEqual(bits(answers), bits(expected))
        stages = answers[-1]["chain"]["stages"]
        self.assertEqual([stage["worker"] for stage in stages[1:-1]], workers.split(","))
        self.assertEqual(stages[0]["worker"], stages[-1]["worker"])
        self.assertEqual(stages[0]["layers"], [0, layers])
        self.assertEqual(stages[-1]["layers"][1] - stages[-1]["layers"][0], layers)
        return answers[-1]["chain"]["work"]

    def test_drafts_of_a_model_and_several_answers(self):
        package = testing.tiny_package("qwen3")
        workers = self.between(package)
        for chosen in (kSampling, ("--temperature", 0)):
            with self.subTest(chosen=chosen):
                work = self.check_same(
                    package, 1, workers, ("--n", 2), "--speculation", "always", "--draft", package,
                    "--drafts-ahead", 2, "--drafts", 4, chosen=chosen,
                )  # fmt: skip
                self.assertGreater(work["accepted_drafts"], kTokens)

    def test_prompt_logprobs(self):
        package = testing.tiny_package("qwen3")
        self.check_same(package, 1, self.between(package), ("--prompt-logprobs",))

    def test_two_layers_of_a_published_model(self):
        package = testing.smollm2_package()
        work = self.check_same(
            package, 2, self.between(package), ("--n", 2), "--speculation", "always", chosen=("--temperature", 0)
        )
        self.assertGreater(work["drafted_tokens"], 0)

    def test_bench_runs_over_it(self):
        package = testing.tiny_package("qwen3")
        testing.run(
            "bench", "-p", package, "--private-layers", 1, "--stages", 2, "--ctx", 256, "--prompt-tokens", 16,
            "--output-tokens", 8, "--requests", 2, "--json",
        ).check()  # fmt: skip

    def test_too_many_layers_are_refused_with_the_numbers(self):
        outcome = testing.run(
            "generate", "-p", testing.tiny_package("qwen3"), "--prompt-ids", "1,2", "--stages", 2, "--private-layers", 2
        )
        self.assert_user_error(outcome, "--private-layers 2 keeps 4 of the model's 4 layers", "use 1 at most")

    def test_a_lost_worker_is_named(self):
        package = testing.smollm2_package()
        first, second = self.start(testing.worker(package)), self.start(testing.worker(package))
        with testing.Command(
            "generate", "-p", package, "--prompt", "Once", "-n", 2000, "--ctx", 2048, "--ignore-eos", "--quiet",
            "--private-layers", 2, "--workers", testing.addresses(first, second),
        ) as command:  # fmt: skip
            command.wait_for_output(40)
            second.process.kill()
            begin = time.monotonic()
            outcome = command.wait(30)
        self.assertLess(time.monotonic() - begin, 5)
        self.assert_error(outcome, second.address)


class WhatComesToAWorkerBetween(testing.TestCase):
    def record(self, *arguments) -> tuple[list[wire.Frame], bytes, list[dict]]:
        package = testing.tiny_package("qwen3")
        recorder = Recorder(self.start(testing.worker(package)))
        self.addCleanup(recorder.close)
        answers = generate(package, "--workers", recorder.address, *arguments)
        return recorder.frames(), b"\n".join(map(bytes, recorder.received)), answers

    def told(self, stream: bytes, answers: list[dict]) -> list[list[int]]:
        """Four tokens of a prompt or an answer that stand behind each other in the bytes."""
        texts = [answer["prompt_ids"] for answer in answers] + [answer["tokens"] for answer in answers]
        parts = [text[at : at + 4] for text in texts for at in range(len(text) - 3)]
        # What is the same four times over is found in anything.
        return [part for part in parts if len(set(part)) > 2 and any(s in stream for s in spellings(part))]

    def test_no_token_and_nothing_by_which_they_are_chosen(self):
        arguments = ("--n", 2, "--speculation", "always", "--draft", testing.tiny_package("qwen3"))
        frames, stream, answers = self.record("--private-layers", 1, *arguments)
        self.assertGreater(answers[-1]["chain"]["work"]["accepted_drafts"], kTokens)
        self.assertEqual(self.told(stream, answers), [])
        kinds = {frame.kind for frame in frames}
        self.assertLessEqual(kinds, {wire.kHello, wire.kAssignStage, wire.kLinkStage, wire.kStep, wire.kPing,
                                     wire.kReleaseChain, wire.kGoodbye})  # fmt: skip
        steps = [frame.fields() for frame in frames if frame.kind == wire.kStep]
        self.assertGreater(len(steps), 20)
        top_p = struct.unpack("<Q", struct.pack("<d", 1.0))[0]
        for step in steps:
            self.assertEqual(step[5], [1], "sampled apart")
            for sequence in step.get(1, []):
                self.assertLessEqual(set(wire.parse(sequence)), kWithoutPart)
            for opened in step.get(2, []):
                fields = wire.parse(opened)
                # Only the number, and what an unwritten specification has.
                self.assertEqual({number: fields[number] for number in set(fields) - {1}} | {3: [top_p]}, {3: [top_p]})
        route = next(frame for frame in frames if frame.kind == wire.kAssignStage).fields()[8]
        self.assertEqual([wire.parse(entry).get(1, [b""])[0] == b"" for entry in route], [True, False, True])

    def test_a_worker_with_the_whole_model_is_told(self):
        """The same search finds what it is for."""
        frames, stream, answers = self.record()
        self.assertGreater(len(self.told(stream, answers)), 5)
        self.assertIn(wire.kStep, {frame.kind for frame in frames})


if __name__ == "__main__":
    unittest.main()
