"""Links in int8: text over two and three stages whose log-probabilities are near those of native links, the same in
whatever chunks; and refused by name where they cannot be.
"""

import functools
import unittest

import paceline_testing as testing

kPrompt = "The lighthouse keeper wrote a letter to the harbour office every month, and in it he said that"
kInt8 = ("--link-precision", "int8")


def generate(*arguments) -> testing.Outcome:
    return testing.run("generate", "-p", testing.smollm2_package(), "--ctx", 256, "--speculation", "off",
                       "--threads", 2, *arguments, kPrompt)  # fmt: skip


@functools.cache
def answer(*arguments) -> dict:
    flags = ("--json", "-n", 12, "--ignore-eos", "--prompt-logprobs", "--digests")
    return generate(*flags, *arguments).check().json()[0]


class Int8Links(testing.TestCase):
    def test_text_and_close_logprobs_over_two_and_three_stages(self):
        native = answer("--stages", 2)
        self.assertEqual(native["chain"]["link_precision"], "native")
        for stages in (2, 3):
            coded = answer("--stages", stages, *kInt8)
            self.assertEqual(coded["chain"]["link_precision"], "int8")
            self.assertEqual(len(coded["tokens"]), 12)
            self.assertNotEqual(coded["logits_digests"], native["logits_digests"], "the links are coded")
            pairs = list(zip(coded["prompt_logprobs"], native["prompt_logprobs"], strict=True))
            self.assertGreater(len(pairs), 15)
            self.assertLess(sum(abs(a - b) for a, b in pairs) / len(pairs), 0.15)
            change = sum(a - b for a, b in pairs) / len(pairs)
            self.assertLess(abs(change), 0.1)

    def test_chunks_change_no_bit(self):
        whole, pieces = answer("--stages", 2, *kInt8), answer("--stages", 2, *kInt8, "--step-tokens", 10)
        self.assertEqual(pieces["logits_digests"], whole["logits_digests"])
        self.assertEqual(pieces["prompt_logprobs"], whole["prompt_logprobs"])

    def test_one_stage_has_no_links(self):
        self.assertEqual(answer("--stages", 1, *kInt8)["logits_digests"], answer("--stages", 2)["logits_digests"])

    def test_what_cannot_be_is_refused(self):
        exact = generate("--profile", "exact", "--stages", 2, *kInt8)
        self.assert_user_error(exact, "--link-precision int8", "--profile exact")
        self.assert_user_error(generate("--link-precision", "int4"), "--link-precision", "int4")


if __name__ == "__main__":
    unittest.main()
