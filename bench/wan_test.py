"""The bounds of bench/wan, and that its texts are new each time."""

import unittest

import wan
import wan_texts


class Wan(unittest.TestCase):
    def test_few_groups_where_the_link_is_slow_and_many_where_steps_are(self):
        # A step costs the same for any size: round trip and step.
        self.assertAlmostEqual(wan.best_of_groups(32, {32: 0.1, 16: 0.1, 8: 0.1}), 32 / 0.2)
        # A step costs by the row: eight groups fill the link, and the stages are the limit.
        step_s = {n: 0.01 * n for n in (4, 8, 16, 32)}
        self.assertAlmostEqual(wan.best_of_groups(32, step_s), 32 / 0.16)

    def test_no_two_texts_are_alike(self):
        texts = wan_texts.Texts()
        self.assertEqual(len({texts.repetitive() for _ in range(50)}), 50)
        self.assertEqual(len({texts.free() for _ in range(50)}), 50)

    def test_the_same_seed_gives_the_same_texts(self):
        self.assertEqual(wan_texts.Texts(1).repetitive(), wan_texts.Texts(1).repetitive())


if __name__ == "__main__":
    unittest.main()
