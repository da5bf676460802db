"""How far one model's logits are from a reference's: perplexity, likeliest tokens, divergence.

All in f64: the divergence of two readings of the same weights is near 1e-9, which f32 cannot show.
"""

import dataclasses
import math

import numpy as np

ROWS_AT_ONCE = 32  # f64 copies of a few rows: a row of 262144 takes 2 MiB


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


@dataclasses.dataclass
class Window:
    """Sums over the positions of one window. A window of n tokens has n rows of logits and n - 1
    tokens to be predicted."""

    predicted: int = 0
    surprise: float = 0.0  # of the text's tokens, in nats
    reference_surprise: float = 0.0
    rows: int = 0
    same_best: int = 0
    divergence: float = 0.0  # of this from the reference, in nats: sum p (log p - log q)
    largest_divergence: float = 0.0

    def add(self, first: int, logits: np.ndarray, reference: np.ndarray, tokens: np.ndarray) -> None:
        """Takes the rows [first, first + len(logits)) of the window with these tokens."""
        if logits.shape != reference.shape:
            raise ValueError(f"logits of shape {logits.shape}, the reference's {reference.shape}")
        for begin in range(0, len(logits), ROWS_AT_ONCE):
            rows = slice(begin, begin + ROWS_AT_ONCE)
            self._add(log_softmax(logits[rows]), log_softmax(reference[rows]), tokens[first + begin + 1 :])

    def _add(self, own: np.ndarray, reference: np.ndarray, following: np.ndarray) -> None:
        following = following[: len(own)]
        at = np.arange(len(following))
        self.predicted += len(following)
        self.surprise -= own[at, following].sum()
        self.reference_surprise -= reference[at, following].sum()
        self.rows += len(own)
        self.same_best += int((own.argmax(axis=-1) == reference.argmax(axis=-1)).sum())
        divergences = (np.exp(reference) * (reference - own)).sum(axis=-1)
        self.divergence += divergences.sum()
        # Not Python's max, which can lose a NaN.
        self.largest_divergence = float(np.maximum(self.largest_divergence, divergences.max()))

    @property
    def perplexity(self) -> float:
        return math.exp(self.surprise / self.predicted)

    @property
    def reference_perplexity(self) -> float:
        return math.exp(self.reference_surprise / self.predicted)


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Of a model with its reference, over all windows."""

    windows: list[Window]

    def _sum(self, name: str) -> float:
        return sum(getattr(window, name) for window in self.windows)

    @property
    def perplexity(self) -> float:
        return math.exp(self._sum("surprise") / self._sum("predicted"))

    @property
    def reference_perplexity(self) -> float:
        return math.exp(self._sum("reference_surprise") / self._sum("predicted"))

    @property
    def perplexity_change(self) -> float:
        """Relative to the reference's: 0.005 is half a per cent more."""
        return self.perplexity / self.reference_perplexity - 1

    @property
    def top1(self) -> float:
        return self._sum("same_best") / self._sum("rows")

    @property
    def divergence(self) -> float:
        return self._sum("divergence") / self._sum("rows")

    @property
    def largest_divergence(self) -> float:
        return float(np.max([window.largest_divergence for window in self.windows]))
