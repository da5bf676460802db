"""Agreement of logits, with figures that can be worked out by hand."""

import math
import unittest

import numpy as np

from agreement import ROWS_AT_ONCE, Agreement, Window


def logits_of(*probabilities: list[float]) -> np.ndarray:
    return np.log(np.array(probabilities)).astype(np.float32)


def random_logits(seed: int, rows: int, columns: int = 50) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (rows, columns)).astype(np.float32)


class ByHandTest(unittest.TestCase):
    def setUp(self):
        self.reference = logits_of([0.5, 0.25, 0.25], [0.25, 0.5, 0.25])
        self.own = logits_of([0.25, 0.5, 0.25], [0.25, 0.5, 0.25])
        self.window = Window()
        self.window.add(0, self.own, self.reference, np.array([2, 0]))

    def test_only_following_tokens_are_predicted(self):
        # Row 0 predicts token 0; row 1 has nothing to predict, but counts as a distribution.
        self.assertEqual(self.window.predicted, 1)
        self.assertEqual(self.window.rows, 2)
        self.assertAlmostEqual(self.window.perplexity, 4, 5)
        self.assertAlmostEqual(self.window.reference_perplexity, 2, 5)

    def test_divergence_and_best_token(self):
        agreement = Agreement([self.window])
        expected = 0.5 * math.log(0.5 / 0.25) + 0.25 * math.log(0.25 / 0.5)
        self.assertAlmostEqual(agreement.divergence, expected / 2, 6)
        self.assertAlmostEqual(agreement.largest_divergence, expected, 6)
        self.assertEqual(agreement.top1, 0.5)
        self.assertAlmostEqual(agreement.perplexity_change, 1, 5)


class PropertiesTest(unittest.TestCase):
    def test_equal_logits_agree_entirely(self):
        logits = random_logits(1, 70)
        window = Window()
        window.add(0, logits + np.float32(4), logits, np.arange(70) % 50)  # a constant changes no probability
        agreement = Agreement([window])
        self.assertEqual(agreement.top1, 1)
        self.assertLess(agreement.divergence, 1e-10)
        self.assertLess(abs(agreement.perplexity_change), 1e-6)

    def test_pieces_give_what_the_whole_gives(self):
        rows = 2 * ROWS_AT_ONCE + 7
        own, reference, tokens = random_logits(1, rows), random_logits(2, rows), np.arange(rows) % 50
        whole, pieces = Window(), Window()
        whole.add(0, own, reference, tokens)
        for first in range(0, rows, 20):
            pieces.add(first, own[first : first + 20], reference[first : first + 20], tokens)
        self.assertEqual(whole.predicted, rows - 1)
        for name, value in vars(whole).items():
            self.assertAlmostEqual(getattr(pieces, name), value, 9, name)

    def test_a_little_noise_shows_as_half_its_variance(self):
        reference = random_logits(3, 200, 1000)
        noise = np.random.default_rng(4).normal(0, 1e-3, reference.shape).astype(np.float32)
        window = Window()
        window.add(0, reference + noise, reference, np.zeros(200, int))
        # The part of the noise that all likely tokens share cancels, hence less than half of 1e-6.
        self.assertLess(Agreement([window]).divergence, 0.5e-6)
        self.assertGreater(Agreement([window]).divergence, 0.3e-6)

    def test_no_number_is_not_lost(self):
        logits = random_logits(5, 3)
        bad = logits.copy()
        bad[1, 7] = np.nan
        window = Window()
        window.add(0, bad, logits, np.zeros(6, int))
        window.add(3, logits, logits, np.zeros(6, int))
        agreement = Agreement([window, Window()])
        self.assertTrue(math.isnan(agreement.divergence))
        self.assertTrue(math.isnan(agreement.largest_divergence))
        self.assertTrue(math.isnan(agreement.perplexity))

    def test_other_shapes_are_refused(self):
        with self.assertRaises(ValueError):
            Window().add(0, random_logits(1, 3, 50), random_logits(1, 3, 51), np.zeros(3, int))


if __name__ == "__main__":
    unittest.main()
