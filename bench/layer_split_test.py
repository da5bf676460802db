"""Splits by measured times, and the rate of many requests."""

import unittest

import layer_split
import steady


class Split(unittest.TestCase):
    def test_times_come_from_one_load(self):
        times = layer_split.times_of([15, 15], [30.0, 45.0])
        self.assertAlmostEqual(times.layer, 2.0)
        self.assertAlmostEqual(times.head, 15.0)
        self.assertEqual(layer_split.times_of([10, 20], [30.0, 45.0]).head, 0.0, "never negative")

    def test_the_head_counts_as_layers(self):
        self.assertEqual(layer_split.divide(30, 2, layer_split.Times(1.0, 0.0)), [15, 15])
        self.assertEqual(layer_split.divide(30, 2, layer_split.Times(1.0, 6.0)), [18, 12])
        self.assertEqual(layer_split.divide(16, 2, layer_split.Times(1.0, 100.0)), [15, 1])

    def test_what_the_first_stage_does_besides_counts_too(self):
        self.assertEqual(layer_split.divide(30, 2, layer_split.Times(1.0, 2.0, 6.0)), [13, 17])
        self.assertEqual(layer_split.divide(30, 2, layer_split.Times(1.0, 0.0, 300.0)), [1, 29])

    def test_no_other_split_is_better(self):
        for head in (0.0, 1.3, 4.0, 7.7):
            times = layer_split.Times(1.0, head)
            best = min(max(a, 30 - a + head) for a in range(1, 30))
            first, last = layer_split.divide(30, 2, times)
            self.assertAlmostEqual(max(first, last + head), best)

    def test_any_number_of_stages_covers_all_layers(self):
        self.assertEqual(layer_split.divide(30, 1, layer_split.Times(1.0, 3.0)), [30])
        split = layer_split.divide(30, 3, layer_split.Times(1.0, 4.0))
        self.assertEqual(sum(split), 30)
        self.assertEqual(split, [11, 11, 8])
        self.assertEqual(layer_split.divide(3, 3, layer_split.Times(1.0, 9.0)), [1, 1, 1])


class Steady(unittest.TestCase):
    def test_the_rate_is_that_while_all_decode(self):
        early = [0.05 * i for i in range(20)] + [1 + 0.1 * i for i in range(21)]
        late = [1.001 + 0.1 * i for i in range(40)]
        self.assertAlmostEqual(steady.tokens_per_second([early, late]), 20)

    def test_tokens_at_once_count_with_their_step(self):
        self.assertAlmostEqual(steady.tokens_per_second([[0.1, 0.1, 0.1, 0.2, 0.2, 0.3]]), 15)

    def test_without_such_a_time_there_is_none(self):
        self.assertEqual(steady.tokens_per_second([[0, 1, 2], [3, 4, 5]]), 0)
        self.assertEqual(steady.tokens_per_second([[1.0]]), 0)
        self.assertEqual(steady.tokens_per_second([[]]), 0)
        self.assertEqual(steady.tokens_per_second([]), 0)


if __name__ == "__main__":
    unittest.main()
