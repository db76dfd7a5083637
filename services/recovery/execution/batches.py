"""In which order partitions are elected: internal topics one by one, then 1, 10, up to 1,000."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import chain, islice, repeat

from breakglass.services.recovery.execution.target import ElectionTarget
from breakglass.services.recovery.judgement.precedence import recovery_order

CANARY_SIZES = (1, 10)
"""The first batches are small: a mistake shows on one partition, then on ten (R4)."""

LARGEST = 1000
"""KIP-966: what a broker serves of one request."""


def in_order(targets: Sequence[ElectionTarget]) -> list[ElectionTarget]:
    """*targets* in the order in which they are to be elected (R17)."""
    return sorted(targets, key=lambda target: recovery_order(target.partition))


def batches(
    targets: Sequence[ElectionTarget], waits: Callable[[ElectionTarget], bool] = lambda _: False
) -> Generator[tuple[ElectionTarget, ...], bool | None, None]:
    """Split *targets* into batches, in the order in which they are to be elected.

    Internal topics come first and alone, in the order other recoveries need them (R17). Send
    back whether the batch proved the way by an election: as long as none did, batches stay as
    small as the canary. What *waits* by then is in no batch.
    """
    ordered = in_order(targets)
    yield from ((one,) for one in ordered if one.internal and not waits(one))
    rest = (one for one in ordered if not one.internal and not waits(one))
    sizes = chain(CANARY_SIZES, repeat(LARGEST))
    size = next(sizes)
    while batch := tuple(islice(rest, size)):
        proved = yield batch
        size = size if proved is False else next(sizes)
