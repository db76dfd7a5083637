"""What holds for the whole cluster while its partitions are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from breakglass.services.model import Quorum, Silent, Unknown

_UNASKED_QUORUM = Unknown("the controller quorum was not asked")


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts beside the evidence of a single partition."""

    quorum: Quorum | Unknown = _UNASKED_QUORUM
    deadline_passed: bool = True
    """Brokers that have not answered by now count as silent (R15, --recovery-duration-ms)."""
    ruled_out: Mapping[int, str] = field(default_factory=dict)
    """Brokers that are never waited for, and why: ``declared lost``, ``came back EMPTY``.

    A broker that was seen EMPTY and stopped (R2) must be named here when the partition is read
    again: fenced and silent it looks like a leader worth waiting for.
    """

    @property
    def words(self) -> tuple[str, ...]:
        """What of this stands in judgements: while it is the same, so are they."""
        unknown = self.quorum.reason if isinstance(self.quorum, Unknown) else ""
        ruled_out = [f"{broker} {why}" for broker, why in sorted(self.ruled_out.items())]
        return (quorum_lost(self.quorum), unknown, *ruled_out)

    @property
    def without_quorum(self) -> bool:
        """No controller can elect anybody (R20)."""
        return bool(quorum_lost(self.quorum))


def quorum_lost(quorum: Quorum | Unknown) -> str:
    """Why no controller can elect anybody (R20); empty while one may."""
    if isinstance(quorum, Silent):
        return quorum.reason
    if isinstance(quorum, Quorum) and quorum.leader is None:
        return "the controller quorum has no leader"
    return ""


UNASKED = Circumstances()
"""Nothing is known beside the evidence."""
