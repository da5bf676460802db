"""A bad figure must be refused: the judgement itself is tested, with figures made by hand."""

import json
import unittest

from judgement import MINIMUM_BLOCKS, Target, paired_ratio, report_line


class PairedRatioTest(unittest.TestCase):
    def test_pairs_are_compared_block_by_block(self):
        # The machine slows down half way: paired ratios do not care, ratios of medians would.
        values = [95.0] * 10 + [9.5] * 10
        peers = [100.0] * 10 + [10.0] * 10
        ratio = paired_ratio(values, peers)
        self.assertAlmostEqual(ratio.median, 0.95)
        self.assertAlmostEqual(ratio.low, 0.95)
        self.assertEqual(ratio.blocks, 20)

    def test_the_interval_shows_the_spread(self):
        ratio = paired_ratio([1.0, 2.0] * 10, [1.0] * 20)
        self.assertLessEqual(ratio.low, ratio.median)
        self.assertGreater(ratio.high, ratio.low)

    def test_lists_of_different_length_are_refused(self):
        with self.assertRaises(ValueError):
            paired_ratio([1.0], [1.0, 2.0])
        with self.assertRaises(ValueError):
            paired_ratio([], [])


class TargetTest(unittest.TestCase):
    def test_a_bad_figure_does_not_hold(self):
        self.assertTrue(Target("a", 0.98, 0.98).holds)
        self.assertFalse(Target("a", 0.9799, 0.98).holds)
        self.assertTrue(Target("a", 0.6, 0.6, at_least=False).holds)
        self.assertFalse(Target("a", 0.61, 0.6, at_least=False).holds)

    def test_too_few_blocks_and_no_number_do_not_hold(self):
        self.assertFalse(Target("a", 1.0, 0.98, blocks=MINIMUM_BLOCKS - 1).holds)
        self.assertFalse(Target("a", float("nan"), 0.98).holds)

    def test_what_is_exact_needs_no_blocks_but_is_judged(self):
        self.assertTrue(Target.exact("a", 0.99, 0.98).holds)
        self.assertFalse(Target.exact("a", 0.97, 0.98).holds)
        self.assertFalse(Target.exact("a", 0.0051, 0.005, at_least=False).holds)
        self.assertFalse(Target.exact("a", float("nan"), 0.005, at_least=False).holds)

    def test_small_values_are_not_rounded_away(self):
        report = json.loads(report_line("x", {}, [Target.exact("a", 1.23456e-6, 1e-6)]))
        self.assertEqual(report["targets"][0]["value"], 1.235e-06)

    def test_one_bad_target_spoils_the_report(self):
        report = json.loads(report_line("x", {}, [Target("a", 1.0, 0.9), Target("b", 0.5, 0.9)]))
        self.assertEqual([target["holds"] for target in report["targets"]], [True, False])
        self.assertFalse(report["holds"])


if __name__ == "__main__":
    unittest.main()
