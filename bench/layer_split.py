"""Layers divided over stages by measured times, the head counted."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Times:
    """What a layer takes, and what the last and the first stage take besides their layers: in any unit."""

    layer: float
    head: float
    first: float = 0.0


def times_of(split: list[int], busy: list[float]) -> Times:
    """From one load on a chain of `split` layers whose stages computed for `busy`.

    The first stages tell a layer's time (the embedding is in it), the last one what is left for the head.
    """
    layer = sum(busy[:-1]) / sum(split[:-1])
    return Times(layer, max(0.0, busy[-1] - layer * split[-1]))


def divide(layers: int, stages: int, times: Times) -> list[int]:
    """The split whose slowest stage is fastest: the last has `own` layers, the others the rest evenly.

    `times.first` counts where there are two stages.
    """
    def slowest(own: int) -> float:
        most = -(-(layers - own) // (stages - 1)) if stages > 1 else 0
        return max(most * times.layer + times.first, own * times.layer + times.head)

    if stages == 1:
        return [layers]
    # Among equals the last stage has the most: the first one's machine coordinates, too.
    own = min(range(1, layers - stages + 2), key=lambda own: (slowest(own), -own))
    rest, more = divmod(layers - own, stages - 1)
    return [rest + (stage < more) for stage in range(stages - 1)] + [own]
