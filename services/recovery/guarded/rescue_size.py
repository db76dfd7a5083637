"""How much a rescue before elections will save, told before anybody agrees to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from breakglass.services.model import Unknown
from breakglass.services.recovery.guarded.election_quote import Priced
from breakglass.services.recovery.rescue.rescue import divide
from breakglass.services.recovery.rescue.space import estimate
from breakglass.services.recovery.rescue.spans import AtRisk


@dataclass(frozen=True, slots=True)
class RescueSize:
    """What the elections cut off readable replicas."""

    partitions: int
    """Something of each is to be saved."""
    records: int
    """At most, where a log was compacted."""
    size: int | Unknown
    """About how many bytes it takes, if batches are not compressed."""
    impossible: int = 0
    """Partitions that cannot be rescued: a log does not tell where it begins."""


def rescue_size(wanted: Iterable[Priced]) -> RescueSize:
    """What a rescue before the election of *wanted* saves; asks nobody."""
    at_risk = [AtRisk(one.evidence, one.target.designee) for one in wanted]
    shares, unknown = divide(at_risk)
    held = [one for some in shares.values() for one in some]
    size: int | Unknown = 0
    for one in held:
        told = estimate(one)
        size = told if isinstance(told, Unknown) or isinstance(size, Unknown) else size + told
        if isinstance(size, Unknown):
            break
    return RescueSize(len(shares), sum(one.offsets for one in held), size, len(unknown))
