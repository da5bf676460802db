"""The two ways of reading activations, on data whose answer is known."""

import unittest

import inversion
import numpy as np


class Inversion(unittest.TestCase):
    def setUp(self):
        self.draw = np.random.default_rng(3)
        self.table = inversion.unit(self.draw.normal(size=(700, 24)))

    def test_the_nearest_row_by_angle(self):
        tokens = self.draw.integers(0, 700, 1300)
        rows = 9.0 * self.table[tokens] + self.draw.normal(scale=0.05, size=(1300, 24))
        np.testing.assert_array_equal(inversion.nearest(rows, self.table), tokens)
        noise = self.draw.normal(size=(1300, 24))
        self.assertLess((inversion.nearest(noise, self.table) == tokens).mean(), 0.05)

    def test_a_linear_map_is_learned(self):
        hidden = self.draw.normal(size=(24, 40))
        tokens = self.draw.integers(0, 700, 3000)
        rows = self.table[tokens] @ hidden + 5.0
        learned = inversion.LinearMap(rows[:2000], self.table[tokens[:2000]])
        found = inversion.nearest(learned(rows[2000:]), self.table)
        self.assertGreater((found == tokens[2000:]).mean(), 0.95)
        shuffled = inversion.LinearMap(rows[:2000], self.table[self.draw.permutation(tokens[:2000])])
        self.assertLess((inversion.nearest(shuffled(rows[2000:]), self.table) == tokens[2000:]).mean(), 0.05)


if __name__ == "__main__":
    unittest.main()
