"""The soak's judgement: good figures pass, each bad one is refused."""

import unittest

import soak


def result(**changes) -> dict:
    samples = [[float(3 * i), 1000.0 + min(i, 10)] for i in range(40)]
    good = {"done": 500, "cancelled": 90, "refused": 0, "kv_blocks": 64, "free_kv_blocks": 64,
            "resident_bytes": samples}  # fmt: skip
    return {**good, **changes}


class Judgement(unittest.TestCase):
    def test_good_figures_hold(self):
        self.assertTrue(all(soak.judge(result()).values()))

    def test_each_bad_one_is_refused(self):
        leak = [[float(3 * i), 1000.0 + 10 * i] for i in range(40)]
        for name, change in {
            "goes_on": {"done": 3},
            "cancels": {"cancelled": 0},
            "all_blocks_free": {"free_kv_blocks": 63},
            "memory_is_flat": {"resident_bytes": leak},
        }.items():
            holds = soak.judge(result(**change))
            self.assertEqual([key for key, value in holds.items() if not value], [name])
        self.assertFalse(soak.judge(result(refused=1))["goes_on"])
        self.assertFalse(soak.judge(result(resident_bytes=leak[:5]))["memory_is_flat"], "too few")


if __name__ == "__main__":
    unittest.main()
