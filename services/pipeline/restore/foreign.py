"""Records of a restored topic that its restore has not put there: before, between, behind its own.

Where a topic is to be the restore's alone there must be none. Only what lies beside its
transactions is read: the records of each are known to lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from services.errors import ClusterError, TimedOut
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.retry import until
from services.kafka.wire.sender import Sender
from services.model import TopicPartition
from services.pipeline.committed_log import CommittedLog
from services.pipeline.restore.offset_map import CommittedRun
from services.pipeline.source import PartitionSource, TopicSource

DECIDED_SECONDS = 60.0
CHUNK_BYTES = 64 * 1024
"""Of one fetch: most of what is read are a few bytes between two transactions."""

Runs = Mapping[int, Sequence[CommittedRun]]
"""What a restore has put where, by partition."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Committed records of somebody else in one partition."""

    partition: TopicPartition
    first: int
    """The offset of the first of them."""
    count: int


def foreign_records(
    sender: Sender, read: Callable[[], TopicSource], runs: Runs, *, transactional: bool
) -> list[Foreign]:
    """The records of others in those partitions of the topic that *runs* names, empty ones too.

    *read* gives the topic as it is now. What a restore without transactions has sent twice counts
    as well: nobody can tell it apart.

    Raises:
        TimedOut: a transaction stays open, so it is not known what it holds.
        ClusterError, Unreachable: a partition cannot be read.
    """
    deadline = Deadline.after(DECIDED_SECONDS)
    found = [
        _foreign(sender, one, runs[one.partition.partition], transactional=transactional)
        for one in until(deadline, lambda: _decided(read(), runs))
    ]
    return [one for one in found if one.count]


def told(found: Sequence[Foreign]) -> str:
    """What is wrong and what to do, in one sentence."""
    one = found[0]
    more = f" (and {len(found) - 1:,} more partitions)" if len(found) > 1 else ""
    return (
        f"{one.partition} holds {one.count:,} records of somebody else, the first at offset "
        f"{one.first}{more}: stop those who write there and delete the topic, then restore it again"
    )


def stretches(
    runs: Sequence[CommittedRun], start: int, end: int, *, transactional: bool
) -> Iterator[tuple[int, int]]:
    """The offsets of ``[start, end)`` that none of *runs* holds, where others may have written.

    One single offset behind a transaction is its commit marker's.
    """
    at, behind = start, -1
    for run in sorted(runs, key=lambda one: one.new_offset):
        yield from _stretch(at, min(run.new_offset, end), behind)
        at = max(at, run.new_offset + run.count)
        behind = at if transactional else -1
    yield from _stretch(at, end, behind)


def _stretch(start: int, end: int, behind: int) -> Iterator[tuple[int, int]]:
    if start < end and not (start == behind and end - start == 1):
        yield start, end


def _decided(now: TopicSource, runs: Runs) -> list[PartitionSource]:
    for number in runs:
        if number in now.unread:
            raise ClusterError(
                f"{now.name}-{number} cannot be read ({now.unread[number]}): go on with --resume "
                "later"
            )
    found = [one for one in now.partitions if one.partition.partition in runs]
    for one in found:
        if one.held_back:
            raise TimedOut(
                f"a transaction stays open in {one.partition}, so it is not known whether somebody "
                "else writes there: see `kafka-transactions.sh find-hanging`, then run it again "
                "with --resume",
                "a transaction is open",
            )
    return found


def _foreign(
    sender: Sender, source: PartitionSource, runs: Sequence[CommittedRun], *, transactional: bool
) -> Foreign:
    log = CommittedLog(sender, source.leader, source.partition, CHUNK_BYTES)
    first, count = -1, 0
    beside = stretches(runs, source.log_start, source.stable_end, transactional=transactional)
    for start, end in beside:
        for record in log.records(start, end):
            first = record.offset if first < 0 else first
            count += 1
    return Foreign(source.partition, first, count)
