"""Where consumer groups stand, and the wait until each has processed all that is in a cut."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from breakglass.services.checkpoint.kafka.log_ends import Ends
from breakglass.services.errors import BreakglassError, ClusterError, TimedOut
from breakglass.services.kafka.cluster.coordinators import find_coordinator
from breakglass.services.kafka.cluster.group_offsets import read_committed
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, Unknown

PAUSE_SECONDS = 0.1
ASK_SECONDS = 10.0
NAMED = 3
"""Partitions that a message names."""

NEAR = 16
"""Offsets that are looked through for records."""
Empty = Callable[[TopicPartition, int, int], bool]
Standing = Mapping[str, Mapping[TopicPartition, int]]
"""Committed offsets by group."""


def _unlooked(_partition: TopicPartition, _start: int, _end: int) -> bool:
    """Nobody looks: there may be something."""
    return False


@dataclass(frozen=True, slots=True)
class GroupLag:
    """What a group has not processed of a cut."""

    group: str
    behind: tuple[tuple[TopicPartition, int, int], ...]
    """Partition, where the group stands, and where the cut is; nothing: it has no offset at all."""

    def __str__(self) -> str:
        if not self.behind:
            return f"group {self.group} has committed nothing on these topics"
        named = ", ".join(f"{one} at {at} of {to}" for one, at, to in self.behind[:NAMED])
        more = len(self.behind) - NAMED
        rest = f" and {more} partitions more" if more > 0 else ""
        return f"group {self.group} lags: {named}{rest}"


def read_standing(
    client: ReadClient,
    groups: Iterable[str],
    partitions: Collection[TopicPartition],
    deadline: Deadline,
) -> dict[str, dict[TopicPartition, int]]:
    """The offsets that *groups* have committed on *partitions*, pending ones not counted (H11).

    Raises:
        ClusterError, NotAuthorized, Unreachable: a group cannot be read.
    """
    client.describe(deadline)
    wanted = frozenset(partitions)
    found: dict[str, dict[TopicPartition, int]] = {one: {} for one in groups}
    for broker in {find_coordinator(client.sender, one, deadline) for one in found}:
        told = read_committed(client.sender, broker, wanted, deadline)
        hidden = sorted(set(told.hidden) & set(found))
        if isinstance(told.offsets, Unknown) or hidden:
            reason = told.offsets.reason if isinstance(told.offsets, Unknown) else ""
            why = f"needs DESCRIBE on group {hidden[0]}" if hidden else reason
            raise TimedOut(f"groups of b{broker} cannot be read ({why}): try again", why)
        for partition, offsets in told.offsets.items():
            for group in found.keys() & offsets.keys():
                found[group][partition] = offsets[group]
    return found


def _nothing(partition: TopicPartition, start: int, end: int, empty: Empty) -> bool:
    return end - start <= NEAR and empty(partition, start, end)


def read_by(group: Mapping[TopicPartition, int], cut: Ends) -> dict[TopicPartition, int]:
    """The part of *cut* in the topics that a group reads: those it has committed anything on."""
    topics = {one.topic for one in group}
    return {one: end for one, end in cut.items() if one.topic in topics}


def lags(standing: Standing, cut: Ends, empty: Empty = _unlooked) -> tuple[GroupLag, ...]:
    """The groups that have not committed as far as *cut*.

    *empty* tells of a short range whether there is nothing in it that a group processes: a group
    that has stopped stands before the markers behind its last record.
    """
    found = []
    for group, offsets in sorted(standing.items()):
        wanted = read_by(offsets, cut)
        behind = tuple(
            (one, offsets.get(one, 0), end)
            for one, end in wanted.items()
            if offsets.get(one, 0) < end and not _nothing(one, offsets.get(one, 0), end, empty)
        )
        if behind or not wanted:
            found.append(GroupLag(group, behind))
    return tuple(found)


def drained(
    client: ReadClient,
    groups: Collection[str],
    cut: Ends,
    deadline: Deadline,
    wait: Callable[[float], None],
    empty: Empty = _unlooked,
) -> dict[str, dict[TopicPartition, int]]:
    """Where *groups* stand once each has committed as far as *cut* (H5); *empty* as of `lags`.

    Raises:
        ClusterError: one has not before *deadline*; the message says which and how far.
        BreakglassError: a group cannot be read until then.
    """
    while True:
        try:
            # However little time is left, the answer says which group lags.
            standing = read_standing(client, groups, cut, Deadline.after(ASK_SECONDS))
            late = lags(standing, cut, empty)
            if not late:
                return standing
            error: BreakglassError = ClusterError(
                f"not drained in time: {'; '.join(map(str, late))}: see that it runs, then take a "
                "checkpoint with a new id"
            )
        except BreakglassError as unread:
            if not unread.retriable:
                raise
            error = unread
        if deadline.passed:
            raise error
        wait(PAUSE_SECONDS)
