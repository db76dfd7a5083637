"""Reads the committed offsets of groups, and waits until each group has processed a cut."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.logs import Ends
from breakglass.services.errors import BreakglassError, ClusterError, TimedOut
from breakglass.services.kafka.cluster.group_offsets import find_coordinator, read_offsets_of
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import TopicPartition

PAUSE_SECONDS = 0.1
NAMED = 3
"""The number of partitions that a message names."""

NEAR = 16
"""Maximum number of offsets that are searched for records."""
Empty = Callable[[TopicPartition, int, int], bool]
Standing = Mapping[str, Mapping[TopicPartition, int]]
"""Committed offsets by group."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    """What a group has not processed of a cut."""

    group: str
    behind: tuple[tuple[TopicPartition, int, int], ...]
    """Partition, the group's offset, and the cut; empty: the group has no offset at all."""

    def __str__(self) -> str:
        if not self.behind:
            return f"group {self.group} has committed nothing on these topics"
        named = ", ".join(f"{one} at {at} of {to}" for one, at, to in self.behind[:NAMED])
        more = len(self.behind) - NAMED
        rest = f" and {more} partitions more" if more > 0 else ""
        return f"group {self.group} lags: {named}{rest}"


def read_named_groups(
    client: ReadClient,
    groups: Iterable[str],
    partitions: Collection[TopicPartition],
    deadline: Deadline,
) -> dict[str, dict[TopicPartition, int]]:
    """The offsets that *groups* have committed on *partitions*, without pending offsets (H11).

    Raises ClusterError, NotAuthorized, Unreachable: a group cannot be read.
    """
    client.describe(deadline)
    wanted, names = frozenset(partitions), tuple(groups)

    def read() -> dict[str, dict[TopicPartition, int]]:
        coordinators = _coordinators(client, names, deadline)
        found: dict[str, dict[TopicPartition, int]] = {group: {} for group in names}
        for broker in set(coordinators.values()):
            its = [group for group in names if coordinators[group] == broker]
            committed = read_offsets_of(client.sender, broker, its, wanted, deadline)
            for partition, offsets in committed.items():
                for group, offset in offsets.items():
                    found[group][partition] = offset
        if _coordinators(client, names, deadline) != coordinators:
            # A broker that has not learned of its successor still answers.
            raise TimedOut("a group has another coordinator now: try again", "a coordinator moved")
        return found

    return until(deadline, read)


def _coordinators(client: ReadClient, groups: Iterable[str], deadline: Deadline) -> dict[str, int]:
    return {group: find_coordinator(client.sender, group, deadline) for group in groups}


def read_by(group: Mapping[TopicPartition, int], cut: Ends) -> dict[TopicPartition, int]:
    """The part of *cut* in the topics on which the group has committed an offset."""
    topics = {partition.topic for partition in group}
    return {one: end for one, end in cut.items() if one.topic in topics}


def lags(standing: Standing, cut: Ends, empty: Empty = lambda *_: False) -> tuple[GroupLag, ...]:
    """The groups that have not committed up to *cut*.

    *empty* says whether a short range has nothing that a group processes: the offset of a stopped
    group is before the markers that follow its last record.
    """
    found = []
    for group, offsets in sorted(standing.items()):
        wanted = read_by(offsets, cut)
        behind = tuple(
            (one, at, end)
            for one, end in wanted.items()
            if (at := offsets.get(one, 0)) < end and not (end - at <= NEAR and empty(one, at, end))
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
    empty: Empty = lambda *_: False,
) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of *groups* once each has committed up to *cut* (H5); *empty* as in `lags`.

    Raises:
        ClusterError: a group has not by *deadline*; the message names it and its lag.
        BreakglassError: a group cannot be read until then.
    """
    while True:
        try:
            # Read the groups even when little time is left, so that the error names the group that
            # lags.
            standing = read_named_groups(client, groups, cut, Deadline.after(patience.REQUEST))
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
