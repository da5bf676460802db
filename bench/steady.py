"""The rate of many requests while all of them decode; as load/statistics.h has it."""

import bisect


def tokens_per_second(times: list[list[float]]) -> float:
    """`times` of each request's tokens, in seconds. 0 where no time is all requests' decode."""
    if not times or not all(times):
        return 0.0
    begin = max(own[0] for own in times)
    end = min(own[-1] for own in times)
    rate = 0.0
    for own in times:
        inside = own[bisect.bisect_left(own, begin) : bisect.bisect_right(own, end)]
        if not inside or inside[0] == inside[-1]:
            return 0.0
        rate += sum(at > inside[0] for at in inside) / (inside[-1] - inside[0])
    return rate
