"""Reads where a transactional checkpoint begins to read transactions, and where it ends.

What has to be left out of a checkpoint was written after its floors, if transactions have ended
twice between the floors and the ends (`kafka.transactions`). What was written before the floors is
not read, so the floors are read as late as possible: again before each time that transactions end.
An application with a transaction that stays open for a minute then costs no more reading than one
whose transactions are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.groups import read_named_groups
from breakglass.services.checkpoint.kafka.log_ends import (
    Ends,
    Logs,
    read_ends,
    read_logs,
    settled,
)
from breakglass.services.checkpoint.kafka.producer_histories import state_logs
from breakglass.services.checkpoint.protocol.transactions import ENDINGS
from breakglass.services.checkpoint.store.documents import TransactionFloors
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.offsets_topic import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.consumer_offsets import log_of

FEW = 10_000
"""Offsets that are read so fast that a shorter window is not worth a wait."""
MOST_ENDINGS = ENDINGS + 2
"""How often transactions end at most, for a window that is shorter."""
WORTHWHILE = 0.5
"""Transactions end once more if the last time has made the window this much shorter."""


@dataclass(frozen=True, slots=True)
class TransactionWindow:
    """The floors and the ends of a checkpoint, read when it is started."""

    floors: TransactionFloors
    ends: Ends

    def offsets(self, numbers: Mapping[TopicPartition, int]) -> int:
        """Offsets of the checkpoint's partitions that are to be read."""
        floors = self.floors.stable
        return sum(max(0, self.ends[log] - floors[number]) for log, number in numbers.items())


def read_floors(
    client: ReadClient,
    logs: Logs,
    groups: Sequence[str],
    numbers: Mapping[TopicPartition, int],
    deadline: Deadline,
) -> TransactionFloors:
    """The stable ends of *logs* and of the internal topics, then the offsets of *groups*.

    *numbers* are those of the partitions in the checkpoint.

    Raises:
        ClusterError, NotAuthorized, Unreachable: they cannot be read.
    """
    stable = logs.stable_ends(deadline)
    internal: Ends = {}
    if groups:
        offsets = read_logs(client, (OFFSETS_TOPIC,), deadline)
        wanted = {log_of(name, OFFSETS_TOPIC, len(offsets.states)) for name in groups}
        ends = offsets.stable_ends(deadline)
        internal = {partition: ends[partition] for partition in sorted(wanted)}
    coordinators = state_logs(client, deadline)
    if coordinators is not None:
        internal |= coordinators.high_watermarks(deadline)
    standing = read_named_groups(client, groups, numbers, deadline)
    return TransactionFloors(
        _by_topic(internal),
        {
            name: {numbers[read]: offset for read, offset in sorted(offsets.items())}
            for name, offsets in standing.items()
        },
        {number: stable[partition] for partition, number in numbers.items()},
    )


def _by_topic(ends: Ends) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for partition, end in ends.items():
        found.setdefault(partition.topic, {})[partition.partition] = end
    return found


def read_window(
    client: ReadClient,
    groups: Sequence[str],
    numbers: Mapping[TopicPartition, int],
    seconds: float,
) -> TransactionWindow:
    """Floors, then the ends once transactions have ended twice after the floors were read.

    A transaction that was open at first has ended on one partition after the first time, and has
    its markers on all partitions after the second time. Transactions end more often while that
    makes the window much shorter, each time within *seconds*.

    Raises:
        TimedOut: a transaction stays open.
        ClusterError, NotAuthorized, Unreachable: logs or groups cannot be read.
    """
    topics = sorted({partition.topic for partition in numbers})
    floors: list[TransactionFloors] = []
    found: TransactionWindow | None = None
    while len(floors) < MOST_ENDINGS:
        try:
            floors.append(_floors_now(client, topics, groups, numbers))
            settled(client, topics, Deadline.after(seconds))
            if len(floors) < ENDINGS:
                continue
            _, ends = read_ends(client, topics, Deadline.after(patience.COMMAND))
        except BreakglassError:
            if found is None:
                raise
            return found
        before = found.offsets(numbers) if found else None
        found = TransactionWindow(floors[-ENDINGS], ends)
        if not worth_another(found.offsets(numbers), before):
            break
    assert found is not None
    return found


def worth_another(offsets: int, before: int | None) -> bool:
    """Whether a window of *offsets* may be made much shorter; *before* was the last one's."""
    return offsets > FEW and (before is None or offsets <= WORTHWHILE * before)


def _floors_now(
    client: ReadClient,
    topics: Sequence[str],
    groups: Sequence[str],
    numbers: Mapping[TopicPartition, int],
) -> TransactionFloors:
    deadline = Deadline.after(patience.COMMAND)

    def read() -> TransactionFloors:
        return read_floors(client, read_logs(client, topics, deadline), groups, numbers, deadline)

    return until(deadline, read)
