"""Judges paired, interleaved measurements: medians of ratios, their intervals, and targets."""

import dataclasses
import json
import random
import statistics

MINIMUM_BLOCKS = 20


@dataclasses.dataclass(frozen=True)
class Ratio:
    """The median of paired ratios, with a bootstrap interval of 95 % and their number."""

    median: float
    low: float
    high: float
    blocks: int


@dataclasses.dataclass(frozen=True)
class Target:
    """What a benchmark must hold: `value` at least (or at most) `bound`.

    A measurement varies, so it needs MINIMUM_BLOCKS. What comes out the same each time (a size, a
    perplexity) is exact: it has no blocks (None).
    """

    name: str
    value: float
    bound: float
    at_least: bool = True
    blocks: int | None = MINIMUM_BLOCKS

    @classmethod
    def exact(cls, name: str, value: float, bound: float, at_least: bool = True) -> "Target":
        return cls(name, value, bound, at_least, blocks=None)

    @property
    def holds(self) -> bool:
        if self.blocks is not None and self.blocks < MINIMUM_BLOCKS:
            return False
        if self.value != self.value:
            return False
        return bool(self.value >= self.bound if self.at_least else self.value <= self.bound)  # NumPy's too


def paired_ratio(values: list[float], peers: list[float], seed: int = 1) -> Ratio:
    """The ratio values[i] / peers[i] of each block; lists of one length, peers not 0."""
    if len(values) != len(peers) or not values:
        raise ValueError(f"{len(values)} values for {len(peers)} peers")
    ratios = [value / peer for value, peer in zip(values, peers)]
    generator = random.Random(seed)
    medians = sorted(
        statistics.median(generator.choices(ratios, k=len(ratios))) for _ in range(2000)
    )
    return Ratio(
        statistics.median(ratios), medians[int(0.025 * 2000)], medians[int(0.975 * 2000)], len(ratios)
    )


def report_line(bench: str, ratios: dict[str, Ratio], targets: list[Target]) -> str:
    """The one JSON object that ends a benchmark's output."""
    return json.dumps(
        {
            "bench": bench,
            "ratios": {name: dataclasses.asdict(ratio) for name, ratio in ratios.items()},
            "targets": [
                {
                    "name": target.name,
                    "value": float(f"{target.value:.4g}"),
                    "bound": target.bound,
                    "kind": "at least" if target.at_least else "at most",
                    "holds": target.holds,
                }
                for target in targets
            ],
            "holds": all(target.holds for target in targets),
        }
    )
