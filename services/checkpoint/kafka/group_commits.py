"""Reads how groups commit their offsets, in the last part of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.log_ends import Logs
from breakglass.services.checkpoint.kafka.transaction_logs import log_of
from breakglass.services.checkpoint.protocol.evidence import Committing
from breakglass.services.errors import BreakglassError, TimedOut
from breakglass.services.kafka.offsets_topic import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.recovery.internal_topics.records import StateKind, change_of
from breakglass.services.recovery.internal_topics.wire import NotThatRecord
from breakglass.services.topic_backup.batch_header import BatchHeader
from breakglass.services.topic_backup.record import Record

LAST_OFFSETS = 1_000
"""Offsets at the end of a partition of that topic that are searched for commits."""


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits of one group in the last part of its log."""

    plain: int = 0
    transactional: int = 0
    producers: frozenset[int] = frozenset()
    """Producer ids of its transactions."""

    @property
    def way(self) -> Committing:
        """How the group commits."""
        if self.plain:
            return Committing.PLAIN
        return Committing.TRANSACTIONAL if self.transactional else Committing.UNKNOWN


def read_commits(
    client: ReadClient, groups: Collection[str], deadline: Deadline
) -> Mapping[str, Commits]:
    """The commits of *groups* in the last part of ``__consumer_offsets``.

    A group is absent if no commit of it was seen, for example because this user may not read the
    topic.
    """
    if not groups:
        return {}
    found: dict[str, Commits] = {}
    try:
        count = len(client.partitions((OFFSETS_TOPIC,), deadline))
    except BreakglassError:
        return found
    by_partition: dict[TopicPartition, set[str]] = {}
    for group in groups if count else ():
        by_partition.setdefault(log_of(group, OFFSETS_TOPIC, count), set()).add(group)
    for partition, wanted in sorted(by_partition.items()):
        # How a group commits is unknown if its partition cannot be read: no promise is built on it.
        with suppress(BreakglassError):
            found |= _read(client, partition, wanted, deadline)
    return found


def _read(
    client: ReadClient, partition: TopicPartition, groups: Set[str], deadline: Deadline
) -> dict[str, Commits]:
    """The commits of *groups*, all in *partition*; a short wait for an open transaction's end."""
    settled = deadline.sooner(patience.GROUPS)

    def read() -> dict[str, Commits]:
        found: dict[str, Commits] = {}
        states = client.partitions((OFFSETS_TOPIC,), deadline)
        state = next((state for state in states if state.partition == partition), None)
        if state is None or state.leader is None:
            raise TimedOut(f"{partition} is offline: run `breakglass triage`", "no leader")
        ends = Logs(client, (state,))
        start, end = ends.starts(deadline)[partition], ends.stable_ends(deadline)[partition]
        log = CommittedLog(client.sender, state.leader, partition)
        for group, header in _commits(log, max(start, end - LAST_OFFSETS), end):
            if group in groups:
                found[group] = _counted(found.get(group, Commits()), header)
        open_after = ends.high_watermarks(deadline)[partition] > end
        if open_after and groups - found.keys() and not settled.passed:
            raise TimedOut(f"a transaction stays open in {partition}: try again", "open")
        return found

    return until(deadline, read)


def _commits(log: CommittedLog, start: int, end: int) -> Iterator[tuple[str, BatchHeader]]:
    """Each batch with offsets of a group, once for each such group."""
    for batch in log.batches(start, end):
        named = {_committing(record) for record in batch.records(log.where)}
        yield from ((group, batch.header) for group in named if group is not None)


def _committing(record: Record) -> str | None:
    """The group whose offset *record* commits; None for another record."""
    try:
        change = change_of(OFFSETS_TOPIC, record)
    except NotThatRecord:
        return None
    if change is None or change.value is None or change.key.kind is not StateKind.OFFSET:
        return None
    return change.key.name


def _counted(before: Commits, header: BatchHeader) -> Commits:
    if not header.transactional:
        return Commits(before.plain + 1, before.transactional, before.producers)
    producers = before.producers | {header.producer_id}
    return Commits(before.plain, before.transactional + 1, producers)
