"""Asks every partition for a checkpoint until each has started: pure functions, no stored state.

After a crash only the record of received answers is lost: the next coordinator asks all partitions
again, and each answers that it has already started.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from breakglass.services.checkpoint.protocol.participant import Acknowledge
from breakglass.services.checkpoint.protocol.values import (
    PartitionBackup,
    Status,
    checkpoint_status,
    partition_status,
)


@dataclass(frozen=True, slots=True)
class NotHigher:
    """The id is not greater than all earlier ids."""

    requested: int
    latest: int

    @property
    def message(self) -> str:
        """The message in Zeebe's words."""
        return (
            f"Requested backup has id {self.requested}. The latest backup has id {self.latest}. "
            "A backupId is an integer and must be greater than the ID of previous backups that "
            "are completed, failed, or deleted. Zeebe does not take two backups with the same "
            "ids."
        )


@dataclass(frozen=True, slots=True)
class Take:
    """A checkpoint request in progress."""

    id: int
    partitions: tuple[int, ...]
    started: frozenset[int] = frozenset()
    superseded: int | None = None
    """The greatest id that a partition had already passed when it was asked."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The partitions that have not answered; to be asked first and again."""
        return tuple(partition for partition in self.partitions if partition not in self.started)

    @property
    def acknowledged(self) -> bool:
        """Whether the client may receive the answer that the checkpoint has started."""
        return not self.missing and self.superseded is None

    @property
    def refusal(self) -> NotHigher | None:
        """The answer for the client instead: a partition saw a greater id before this one."""
        return None if self.superseded is None else NotHigher(self.id, self.superseded)


def take(id: int, partitions: Sequence[int], seen: Iterable[int]) -> Take | NotHigher:
    """Begin with a new id, which must be greater than all of *seen*: deleted and failed too."""
    latest = max(seen, default=0)
    if id <= latest:
        return NotHigher(id, latest)
    return Take(id, tuple(partitions))


def acknowledge(take: Take, partition: int, answer: Acknowledge) -> Take:
    """A partition has answered; repeated answers and answers to another take change nothing."""
    if answer.checkpoint != take.id or partition not in take.partitions:
        return take
    if answer.state.id > take.id:
        greatest = max(take.superseded or 0, answer.state.id)
        return replace(take, superseded=greatest)
    return replace(take, started=take.started | {partition})


def status(partitions: Sequence[int], backups: Iterable[PartitionBackup]) -> Status:
    """The status of a checkpoint of these *partitions*, from the known backups of each."""
    known = {backup.partition: backup for backup in backups}
    return checkpoint_status(
        partition_status(known.get(partition, PartitionBackup(partition)))
        for partition in partitions
    )
