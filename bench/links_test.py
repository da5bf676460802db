"""links: scores of texts, compared."""

import math
import unittest

import links


def scores(*rows: dict[int, float]) -> links.Scores:
    """Token 1 is the text's at every position."""
    logs = [{token: math.log(share) for token, share in row.items()} for row in rows]
    return links.Scores([row[1] for row in logs], logs)


class Divergence(unittest.TestCase):
    def test_is_zero_for_the_same_and_that_of_the_definition_else(self):
        one = {1: math.log(0.5), 2: math.log(0.25)}
        other = {1: math.log(0.25), 2: math.log(0.25)}
        self.assertAlmostEqual(links.divergence(one, one), 0)
        self.assertAlmostEqual(links.divergence(one, other), 0.5 * math.log(2) + 0.25 * math.log(0.5))

    def test_what_one_alone_has_counts_with_the_rest(self):
        one = {1: math.log(0.5), 2: math.log(0.25)}
        other = {1: math.log(0.5), 3: math.log(0.25)}
        self.assertAlmostEqual(links.divergence(one, other), 0)


class Compare(unittest.TestCase):
    def test_perplexities_and_likeliest_tokens(self):
        native = [scores({1: 0.5, 2: 0.4}, {1: 0.5, 2: 0.4})]
        other = [scores({1: 0.25, 2: 0.4}, {1: 0.5, 2: 0.4})]
        found = links.compare(other, native)
        self.assertAlmostEqual(found.perplexity, math.sqrt(8))
        self.assertAlmostEqual(found.perplexity_ratio, math.sqrt(2))
        self.assertEqual(found.top1, 0.5)
        self.assertGreater(found.divergence, 0)
        same = links.compare(native, native)
        self.assertEqual((same.perplexity_ratio, same.top1, same.divergence), (1, 1, 0))

    def test_a_tie_goes_to_the_first_token(self):
        self.assertEqual(links.best({7: -1.0, 3: -1.0, 5: -2.0}), 3)


if __name__ == "__main__":
    unittest.main()
