"""The fleet: stages, figures, plots, requests; and how a failure is told."""

import json
import unittest

from page_testing import PageCase, kFleet, kIsIdle, testing


class Format(PageCase):
    def test_numbers_as_people_read_them(self):
        self.open()
        cases = [
            ("percent(0)", "0 %"), ("percent(0.0003)", "0.1 %"), ("percent(0.256)", "26 %"), ("percent(null)", "–"),
            ("milliseconds(0.25)", "0.25 ms"), ("milliseconds(87.6)", "88 ms"), ("milliseconds(1234)", "1.23 s"),
            ("milliseconds(119999)", "2 min 0 s"), ("milliseconds(undefined)", "–"),
            ("roundMilliseconds(1500)", "1.5 s"),
            ("bytes(0)", "–"), ("bytes(1536)", "1.5 KiB"), ("bytes(16 * 1024 ** 3)", "16 GiB"),
            ("rate(0.5)", "0.50"), ("rate(9.96)", "10.0"), ("rate(1234)", "1,234"), ("rate(NaN)", "–"),
            ("plural(1, 'stage')", "1 stage"), ("plural(2, 'stage')", "2 stages"), ("count(8192)", "8,192"),
        ]
        for call, wanted in cases:
            with self.subTest(call):
                script = f"import('/assets/format.js').then((format) => format.{call})"
                self.assertEqual(self.browser.eval(script), wanted)

    def test_a_long_chain_has_two_lines_of_load(self):
        self.open()
        lines = "import('/assets/plots.js').then(({loadLines}) => loadLines(%s))"
        self.assertEqual(self.browser.eval(lines % "[[0.5, 1], [0.25, null]]"),
                         [["stage 1", [0.5, 1]], ["stage 2", [0.25, None]]])
        long = "[...Array(8).keys()].map((stage) => [stage / 8, null, stage ? null : 1])"
        self.assertEqual(self.browser.eval(lines % long),
                         [["busiest", [0.875, None, 1]], ["mean", [0.4375, None, 1]]])


class Fleet(PageCase):
    def fill(self):
        for number in range(2):
            asked = {"messages": [{"role": "user", "content": f"Say {number}"}], "max_tokens": 24, "ignore_eos": True}
            response = self.service.request(
                "POST", "/v1/chat/completions", json.dumps(asked).encode(),
                **{"Content-Type": "application/json", "X-Request-Id": f"seen-{number}"})
            self.assertEqual(response.status, 200)

    def test_stages_figures_plots_and_requests(self):
        self.fill()
        self.open("#fleet")
        self.browser.wait_for("document.querySelectorAll('.stage').length === 2")
        first, second = self.browser.eval("[...document.querySelectorAll('.stage')].map((stage) => stage.innerText)")
        self.assertIn("Stage 1", first)
        self.assertRegex(first, r"Layers 0–\d+ of 30")
        self.assertRegex(second, r"Layers \d+–29 of 30")
        for text in (first, second):
            self.assertRegex(text, r"Weights\s*\d+ MiB")
            self.assertRegex(text, r"Process\s*\d+ MiB of [\d.]+ GiB")
            self.assertRegex(text, r"Device\s*CPU")
            self.assertRegex(text, r"127\.0\.0\.1:\d+")
        self.browser.wait_for("/Round trip\\s*[\\d.]+ m?s/.test(document.querySelector('.stage').innerText)")
        # The log has both, the later one first, and its counts.
        self.browser.wait_for("document.querySelectorAll('#request-rows tr').length >= 2")
        row = self.browser.text("#request-rows tr")
        self.assertRegex(row, r"seen-1.*chat/completions.*\t24\t.*at limit")
        self.assertNotIn("Say 1", self.browser.text("#fleet-view"))
        self.browser.wait_for("document.querySelector('#figure-running').innerText === '0'")
        self.browser.wait_for("/\\d+ ms|\\d s/.test(document.querySelector('#figure-first').innerText)")
        # Each plot says what it shows, and shows it.
        for plot in ("tokens", "requests", "first", "next", "kv", "load"):
            self.browser.wait_for(f"checks.drawnPixels('#plot-{plot}', '--series-1') > 3")
            said = self.browser.eval(f"document.querySelector('#plot-{plot} [role=img]').getAttribute('aria-label')")
            self.assertRegex(said, r"^[A-Z][A-Za-z ]+: .*\d")
        self.assert_named()
        self.assert_clean()

    def test_without_uplot_it_says_so_and_shows_the_rest(self):
        self.browser.call("Network.setBlockedURLs", urls=["*/uplot.js"])
        self.open("#fleet")
        self.browser.wait_for("document.querySelectorAll('.stage').length === 2")
        self.assertIn("no plots", self.browser.text("#plots-missing"))
        self.assertEqual([problem for problem in self.browser.problems if "uplot.js" not in problem], [])

    def test_it_goes_on_by_itself(self):
        self.open("#fleet")
        rows = self.browser.eval("document.querySelectorAll('#request-rows tr').length")
        self.fill()
        self.browser.wait_for(f"document.querySelectorAll('#request-rows tr').length === {rows + 2}")

    def test_who_stays_sees_each_request_once(self):
        self.open("#fleet")
        self.fill()
        self.browser.wait_for("document.querySelector('#request-rows tr')?.innerText.includes('seen-1')")
        self.browser.click("#to-chat")
        self.browser.click("#to-fleet")
        numbers = self.browser.eval("[...document.querySelectorAll('#request-rows tr')].length")
        known = self.browser.eval(f"{kFleet}.then((fleet) => fleet.requests.length)")
        self.assertEqual(numbers, known)


class Failure(PageCase):
    @classmethod
    def setUpClass(cls):
        cls.workers = [testing.worker(testing.smollm2_package()) for _ in range(2)]
        for worker in cls.workers:
            cls.addClassCleanup(worker.close)
        cls.arguments = ("--workers", testing.addresses(*cls.workers))
        super().setUpClass()

    def test_a_chain_that_fails_is_told(self):
        self.open()
        self.send_along(ignore_eos=True, max_tokens=900)
        self.ask("Tell me a story.")
        self.browser.wait_for("document.querySelector('.is-assistant .text')?.innerText.length > 5")
        self.workers[1].close()
        self.browser.wait_for(f"{kIsIdle} && document.querySelector('.problem')?.innerText.length > 5")
        self.assertGreater(len(self.browser.text(".is-assistant .text")), 5, "what came stays")
        self.browser.wait_for("document.querySelector('#status').dataset.kind === 'failed'")
        self.browser.click("#to-fleet")
        self.browser.wait_for("document.querySelector('#fleet-state').innerText.includes('has failed')")
        self.browser.wait_for("document.querySelector('#request-rows .bad')?.innerText === 'failed'")
        self.browser.reload()
        self.browser.click("#to-chat")
        self.browser.wait_for("document.querySelector('#welcome-model').textContent.includes('has failed')")
        self.assertTrue(self.browser.eval("document.querySelector('#composer-send').disabled"))


if __name__ == "__main__":
    unittest.main()
