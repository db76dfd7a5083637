"""In which order partitions are elected: internal topics one by one, then 1, 10, up to 1,000."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from services.model import INTERNAL_TOPICS
from services.recovery.execution.target import Target

CANARY_SIZES = (1, 10)
"""The first batches are small: a mistake shows on one partition, then on ten (R4)."""

LARGEST = 1000
"""KIP-966: what a broker serves of one request."""


def batches(targets: Sequence[Target]) -> Iterator[tuple[Target, ...]]:
    """Split *targets* into batches, in the order in which they are to be elected.

    Internal topics come first and alone, in the order other recoveries need them (R17).
    """
    internal = sorted((one for one in targets if one.internal), key=_need)
    yield from ((one,) for one in internal)
    rest = sorted((one for one in targets if not one.internal), key=lambda one: one.partition)
    sizes = iter(CANARY_SIZES)
    start = 0
    while start < len(rest):
        size = next(sizes, LARGEST)
        yield tuple(rest[start : start + size])
        start += size


def _need(target: Target) -> tuple[int, int]:
    return INTERNAL_TOPICS.index(target.partition.topic), target.partition.partition
