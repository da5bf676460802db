"""What an operator sees of a chain: machines that go while nobody asks, and what goes over its links."""

import signal
import time
import unittest
from pathlib import Path

import serving
import paceline_testing as testing

kHidden, kF32 = 576, 4  # of SmolLM2, and of the profile exact


class ChainTest(unittest.TestCase):
    def setUp(self):
        self.workers = [testing.worker(testing.smollm2_package()) for _ in range(2)]
        for worker in self.workers:
            self.addCleanup(worker.close)
        self.service = serving.Service("--workers", testing.addresses(*self.workers),
                                       "--speculation", "off")
        self.addCleanup(self.service.close)

    def wait_until_ill(self, seconds: float) -> float:
        begin = time.monotonic()
        while self.service.get("/health").status == 200:
            self.assertLess(time.monotonic() - begin, seconds)
            time.sleep(0.02)
        return time.monotonic() - begin

    def nodes(self) -> list[float]:
        metrics = self.service.metrics()
        return [metrics[f'node_up{{node="{worker.address}"}}'] for worker in self.workers]

    def test_a_worker_that_ends_is_noticed_at_once(self):
        self.assertEqual(self.nodes(), [1, 1])
        self.workers[1].signal(signal.SIGKILL)
        # A death is told by the connection's end; silence alone would take 5 s.
        self.assertLess(self.wait_until_ill(20), 3)
        self.assertEqual(self.nodes(), [1, 0])
        refused = self.service.post("/v1/completions", {"prompt": "Hi", "max_tokens": 1})
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (503, "unavailable"))
        # By its own connection or by that of the stage before it, whichever is heard first.
        self.assertIn("the chain has failed: worker", self.service.server.log())

    def test_a_worker_that_is_silent_is_noticed(self):
        self.workers[0].signal(signal.SIGSTOP)
        self.addCleanup(self.workers[0].signal, signal.SIGCONT)
        self.wait_until_ill(20)
        self.assertEqual(self.nodes(), [0, 1])

    def test_no_core_would_hold_what_was_said(self):
        for process in (self.service.server, *self.workers):
            limits = Path(f"/proc/{process.process.pid}/limits").read_text()
            self.assertRegex(limits, r"Max core file size +[01] ")

    def test_links_and_stages_are_counted(self):
        answer = self.service.post("/v1/completions", {"prompt": [5, 6, 7, 8, 9], "max_tokens": 4,
                                                       "ignore_eos": True}).json()
        self.assertEqual(answer["usage"]["completion_tokens"], 4)
        metrics = self.service.metrics()
        model = f'model="{serving.kModel}"'
        # The last token is not computed further.
        rows = 5 + 3
        self.assertEqual(metrics[f'hop_bytes_total{{from="0",{model},to="1"}}'], rows * kHidden * kF32)
        for stage in (0, 1):
            labels = f'{model},phase="{{}}",stage="{stage}"'
            self.assertGreater(metrics[f'stage_compute_seconds_sum{{{labels.format("decode")}}}'], 0)
            self.assertEqual(metrics[f'stage_compute_seconds_count{{{labels.format("prefill")}}}'], 1)
            self.assertGreaterEqual(metrics[f'stage_queue_seconds_count{{{model},stage="{stage}"}}'], 4)
            busy = metrics[f'stage_busy_seconds_total{{{model},stage="{stage}"}}']
            whole = metrics[f'stage_seconds_total{{{model},stage="{stage}"}}']
            self.assertTrue(0 < busy < whole, (busy, whole))


if __name__ == "__main__":
    unittest.main()
