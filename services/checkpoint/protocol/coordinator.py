"""What asks every partition for a checkpoint until each has started: pure, and kept nowhere.

A coordinator that dies loses nothing but who had answered: the next one asks all again, and
each partition answers that it has started already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from breakglass.services.checkpoint.protocol.participant import Acknowledge
from breakglass.services.checkpoint.protocol.status import checkpoint_status, partition_status
from breakglass.services.checkpoint.protocol.values import PartitionBackup, Status


@dataclass(frozen=True, slots=True)
class NotHigher:
    """The id is not greater than all before it."""

    requested: int
    latest: int

    @property
    def message(self) -> str:
        """As Zeebe says it."""
        return (
            f"Requested backup has id {self.requested}. The latest backup has id {self.latest}. "
            "A backupId is an integer and must be greater than the ID of previous backups that "
            "are completed, failed, or deleted. Zeebe does not take two backups with the same "
            "ids."
        )


@dataclass(frozen=True, slots=True)
class Take:
    """A checkpoint that is being asked for."""

    id: int
    partitions: tuple[int, ...]
    started: frozenset[int] = frozenset()
    superseded: int | None = None
    """The greatest id by which a partition was past this one, when it was asked."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The partitions to ask, at first and again: those that have not answered."""
        return tuple(one for one in self.partitions if one not in self.started)

    @property
    def acknowledged(self) -> bool:
        """Whether the client may be told that the checkpoint is started."""
        return not self.missing and self.superseded is None

    @property
    def refusal(self) -> NotHigher | None:
        """What the client is told instead: a partition never saw this id before a greater one."""
        return None if self.superseded is None else NotHigher(self.id, self.superseded)


def take(id: int, partitions: Sequence[int], seen: Iterable[int]) -> Take | NotHigher:
    """Begin with a new id, which must be greater than all of *seen*: deleted and failed too."""
    latest = max(seen, default=0)
    if id <= latest:
        return NotHigher(id, latest)
    return Take(id, tuple(partitions))


def resume(id: int, partitions: Sequence[int]) -> Take:
    """Go on with a take that is known to be the same: after a lost answer, or a failover."""
    return Take(id, tuple(partitions))


def acknowledge(take: Take, partition: int, answer: Acknowledge) -> Take:
    """A partition has answered; an answer that comes twice, or to another take, changes nothing."""
    if answer.checkpoint != take.id or partition not in take.partitions:
        return take
    if answer.state.id > take.id:
        greatest = max(take.superseded or 0, answer.state.id)
        return replace(take, superseded=greatest)
    return replace(take, started=take.started | {partition})


def status(partitions: Sequence[int], backups: Iterable[PartitionBackup]) -> Status:
    """The status of a checkpoint of these *partitions*, over what is known of each."""
    known = {one.partition: one for one in backups}
    return checkpoint_status(
        partition_status(known.get(one, PartitionBackup(one))) for one in partitions
    )
