"""In which order partitions are elected: internal topics one by one, then 1, 10, up to 1,000."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import repeat

from services.recovery.execution.target import Target
from services.recovery.judgement.precedence import recovery_order

CANARY_SIZES = (1, 10)
"""The first batches are small: a mistake shows on one partition, then on ten (R4)."""

LARGEST = 1000
"""KIP-966: what a broker serves of one request."""


def batches(targets: Sequence[Target]) -> Generator[tuple[Target, ...], bool | None, None]:
    """Split *targets* into batches, in the order in which they are to be elected.

    Internal topics come first and alone, in the order other recoveries need them (R17). Send
    back whether the batch proved the way by an election: as long as none did, batches stay as
    small as the canary.
    """
    ordered = sorted(targets, key=lambda one: recovery_order(one.partition))
    yield from ((one,) for one in ordered if one.internal)
    rest = [one for one in ordered if not one.internal]
    sizes = iter((*CANARY_SIZES, *repeat(LARGEST, len(rest))))
    start, size = 0, next(sizes)
    while start < len(rest):
        proved = yield tuple(rest[start : start + size])
        start += size
        size = size if proved is False else next(sizes)
