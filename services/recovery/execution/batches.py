"""The order and duration of elections: internal topics singly, then 1, 10, up to 1,000 at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat

from breakglass.services import patience
from breakglass.services.recovery.execution.target import ElectionTarget
from breakglass.services.recovery.judgement.assessment import recovery_order

CANARY_SIZES = (1, 10)
"""The first batches are small: a mistake shows on one partition, then on ten (R4)."""

LARGEST = 1000
"""KIP-966: the partitions that a broker serves of a request."""


def in_order(targets: Sequence[ElectionTarget]) -> list[ElectionTarget]:
    """*targets* in the order in which they are to be elected (R17)."""
    return sorted(targets, key=lambda target: recovery_order(target.partition))


def batches(
    targets: Sequence[ElectionTarget], waits: Callable[[ElectionTarget], bool] = lambda _: False
) -> Generator[tuple[ElectionTarget, ...], bool | None, None]:
    """Split *targets* into batches, in the order in which they are to be elected.

    Internal topics come first and alone, in the order other recoveries need them (R17). Send
    back whether the batch proved the way by an election: as long as none did, batches stay as
    small as the canary. Targets that *waits* is true for by then are in no batch.
    """
    ordered = in_order(targets)
    yield from ((target,) for target in ordered if target.internal and not waits(target))
    rest = (target for target in ordered if not target.internal and not waits(target))
    sizes = chain(CANARY_SIZES, repeat(LARGEST))
    size = next(sizes)
    while batch := tuple(islice(rest, size)):
        proved = yield batch
        size = size if proved is False else next(sizes)


@dataclass(frozen=True, slots=True)
class ExecutionLimits:
    """Bounds of every wait of an execution. Seconds."""

    read: float = patience.REQUEST
    election: float = patience.ELECTION
    """One request; past it the outcome is unknown."""
    confirmation: float = patience.REQUEST
    underway: float = patience.JOB
    """An election whose answer was lost, to take effect; and controllers that fall silent in the
    middle of a run, to answer again."""
    ladder: float = 0.0
    """How long to wait for partitions to become readable; 0 looks once."""
    retries: int = 3
    """KIP-1275's --recovery-election-attempts."""
