"""Which offsets of consumer groups are restored, and whether the groups can be moved at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from services.errors import Refused, UsageError
from services.kafka.cluster.coordinators import find_coordinator
from services.kafka.cluster.group_states import live_groups
from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.topic_backup import consumer_offsets, group_history
from services.topic_backup.held import RestorableTopic
from services.topic_backup.summary import PartitionSummary

ASK_SECONDS = 60.0
NAMED = 5
"""Groups that a refusal names."""

GroupsByPartition = Mapping[int, Mapping[str, int]]
"""Committed offset by partition and group."""


def groups_of(
    held: RestorableTopic, chosen: Sequence[PartitionSummary], at_ms: int | None
) -> dict[int, dict[str, int]]:
    """The groups' offsets on the *chosen* partitions, as they were at that time or newest.

    Raises:
        UsageError: none were saved before that time.
        MalformedInput: they cannot be read.
    """
    if at_ms is None:
        found = {one.partition: consumer_offsets.read(held.folder, one.partition) for one in chosen}
    else:
        state = _state_at(held, at_ms)
        found = {one.partition: state.get(one.partition, {}) for one in chosen}
    return {number: groups for number, groups in found.items() if groups}


def _state_at(held: RestorableTopic, at_ms: int) -> dict[int, dict[str, int]]:
    taken = group_history.times(held.folder.names())
    before = [one for one in taken if one <= at_ms]
    if not before:
        known = f"the first is of {_moment(taken[0])}" if taken else "there are none at all"
        raise UsageError(
            f"{held.folder.where()} has no offsets of groups as early as {_moment(at_ms)}: {known}."
        )
    return group_history.read_state(held.folder, before[-1])


def _moment(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def require_no_members(
    client: ReadClient, groups: Iterable[GroupsByPartition], *, or_else: str = ", then try again"
) -> None:
    """Return if every one of *groups* can be moved; *or_else* ends what a refusal advises.

    Raises:
        Refused: some have live members.
        NotAuthorized, Unreachable: that cannot be asked.
    """
    names = sorted({name for one in groups for held in one.values() for name in held})
    if not names:
        return
    deadline = Deadline.after(ASK_SECONDS)
    coordinators = {find_coordinator(client.sender, name, deadline) for name in names}
    live = {name for one in coordinators for name in live_groups(client.sender, one, deadline)}
    kept = sorted(live.intersection(names))
    if kept:
        more = f" and {len(kept) - NAMED:,} more" if len(kept) > NAMED else ""
        raise Refused(
            f"consumers of {', '.join(kept[:NAMED])}{more} are running, so nothing is restored: "
            f"stop them{or_else}"
        )
