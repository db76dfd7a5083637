"""In which order partitions are elected: internal topics one by one, then 1, 10, up to 1,000."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from services.recovery.execution.target import Target
from services.recovery.precedence import recovery_order

CANARY_SIZES = (1, 10)
"""The first batches are small: a mistake shows on one partition, then on ten (R4)."""

LARGEST = 1000
"""KIP-966: what a broker serves of one request."""


def batches(targets: Sequence[Target]) -> Iterator[tuple[Target, ...]]:
    """Split *targets* into batches, in the order in which they are to be elected.

    Internal topics come first and alone, in the order other recoveries need them (R17).
    """
    ordered = sorted(targets, key=lambda one: recovery_order(one.partition))
    yield from ((one,) for one in ordered if one.internal)
    rest = [one for one in ordered if not one.internal]
    sizes = iter(CANARY_SIZES)
    start = 0
    while start < len(rest):
        size = next(sizes, LARGEST)
        yield tuple(rest[start : start + size])
        start += size
