"""Reads logs of checkpointed topics: ends, ids and lineage in records, the control topic.

Starts and ends of many partitions take one to three requests to each leader. Records are read here
without Spark, because few lie between two moments of a checkpoint; `spark.logs` reads many. Both
use `Sought` to decide which records count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import (
    SETTINGS,
    Control,
    Headers,
    Stamp,
    control_of,
    stamp_of,
)
from breakglass.services.checkpoint.protocol.lineage import (
    Lineage,
    Offsets,
    RecordLineage,
    cut,
    needed,
)
from breakglass.services.errors import ClusterError, OutcomeUnknown, Refused, TimedOut, UsageError
from breakglass.services.kafka.admin_client import TopicClient
from breakglass.services.kafka.marker_client import MarkerClient, Small
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    OffsetError,
    Unanswered,
    read_leader_ends,
)
from breakglass.services.kafka.wire.answers import retriable
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from breakglass.services.pipeline.committed_log import CommittedLog

Ends = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Logs:
    """Partitions with their leaders at the time of reading."""

    client: ReadClient
    states: tuple[PartitionState, ...]

    def starts(self, deadline: Deadline) -> Ends:
        """Log starts. Raises as `high_watermarks`."""
        return self._listed(EARLIEST, READ_UNCOMMITTED, deadline)

    def high_watermarks(self, deadline: Deadline) -> Ends:
        """The offsets up to which every in-sync replica has the records.

        Raises:
            TimedOut: a leader has moved: read the partitions again.
            ClusterError, Unreachable: a leader does not answer the request.
        """
        return self._listed(LATEST, READ_UNCOMMITTED, deadline)

    def stable_ends(self, deadline: Deadline) -> Ends:
        """The offsets before which no transaction is open. Raises as `high_watermarks`."""
        return self._listed(LATEST, READ_COMMITTED, deadline)

    def leader(self, partition: TopicPartition) -> int:
        state = next(state for state in self.states if state.partition == partition)
        assert state.leader is not None
        return state.leader

    def _listed(self, timestamp: int, isolation: int, deadline: Deadline) -> Ends:
        found = read_leader_ends(
            self.client.sender,
            self.states,
            deadline,
            timestamp=timestamp,
            isolation_level=isolation,
        )
        ends: Ends = {}
        for partition, end in found.items():
            if isinstance(end, Unanswered):
                raise end.error
            if isinstance(end, Unknown):
                message = f"the end of {partition} cannot be read ({end.reason}): try again"
                if isinstance(end, OffsetError) and retriable(end.code):
                    raise TimedOut(message, end.reason)
                raise ClusterError(message)
            ends[partition] = end
        return ends


def read_logs(client: ReadClient, topics: Sequence[str], deadline: Deadline) -> Logs:
    """The partitions of *topics*, each with a leader, in the order of the topic names.

    Raises:
        UsageError: a topic does not exist.
        TimedOut: a partition has no leader until the deadline.
    """
    client.describe(deadline)

    def read() -> Logs:
        found = client.partitions(topics, deadline)
        states = sorted(found, key=lambda partition: partition.partition)
        absent = sorted(set(topics) - {state.partition.topic for state in states})
        if absent:
            raise UsageError(f"There is no topic {', '.join(absent)}: check the spelling.")
        offline = [state.partition for state in states if state.leader is None]
        if offline:
            raise TimedOut(
                f"{offline[0]} is offline: run `breakglass triage`, then try again", "no leader"
            )
        return Logs(client, tuple(states))

    return until(deadline, read)


def read_ends(client: ReadClient, topics: Sequence[str], deadline: Deadline) -> tuple[Logs, Ends]:
    """The partitions of *topics* with their high watermarks, even if leaders move.

    Raises: as `read_logs` and `Logs.high_watermarks`.
    """

    def read() -> tuple[Logs, Ends]:
        logs = read_logs(client, topics, deadline)
        return logs, logs.high_watermarks(deadline)

    return until(deadline, read)


def settled(client: ReadClient, topics: Sequence[str], deadline: Deadline) -> tuple[Logs, Ends]:
    """The current high watermarks, once no transaction is open before them (H5).

    A transaction's offset commits are visible before its outputs, so a read up to the stable end
    alone would miss outputs.

    Raises TimedOut: a transaction stays open.
    """
    _, wanted = read_ends(client, topics, Deadline.after(patience.REQUEST))

    def read() -> tuple[Logs, Ends]:
        # Ask even when little time is left, so that the error names the open transaction.
        ask = Deadline.after(patience.REQUEST)
        logs = read_logs(client, topics, ask)
        stable = logs.stable_ends(ask)
        behind = [one for one, end in wanted.items() if stable[one] < end]
        if behind:
            raise TimedOut(
                f"a transaction stays open in {behind[0]} ({len(behind)} partitions): see "
                "`kafka-transactions.sh find-hanging`",
                "a transaction is open",
            )
        return logs, wanted

    return until(deadline, read)


@dataclass(frozen=True, slots=True)
class StampedRecord:
    """The headers of one committed record."""

    partition: TopicPartition
    offset: int
    stamp: Stamp


def committed_log(logs: Logs, partition: TopicPartition) -> CommittedLog:
    """The log of *partition* as its leader serves it."""
    return CommittedLog(logs.client.sender, logs.leader(partition), partition)


def scan(
    logs: Logs, partition: TopicPartition, start: int, end: int, external: Collection[str] = ()
) -> Iterator[StampedRecord]:
    """The committed records in ``[start, end)``, where *end* is at most the stable end.

    Raises:
        Refused: a record has no lineage headers, so its origin is unknown (H10), and its topic is
            not among the *external* ones.
        EvidenceChanged, ClusterError, Unreachable: the log cannot be read.
    """
    log = committed_log(logs, partition)
    if start >= end:
        return
    for record in log.records(start, end):
        stamp = require_stamp(partition, record.offset, record.headers, external)
        yield StampedRecord(partition, record.offset, stamp)


FROM_OUTSIDE = Stamp(0, None)
"""In place of missing headers, where the topic is declared to be written from outside alone."""


def require_stamp(
    partition: TopicPartition, offset: int, headers: Headers, external: Collection[str] = ()
) -> Stamp:
    """What the headers of a record say.

    Without headers a record of an *external* topic comes from outside: nothing in the checkpoint
    led to it, so it makes no cut inconsistent.

    Raises Refused: the headers do not contain the lineage (H10).
    """
    stamp = stamp_of(headers)
    if stamp is None and partition.topic in external:
        return FROM_OUTSIDE
    if stamp is None:
        raise Refused(
            f"unverifiable: the record at offset {offset} of {partition} says nothing of what led "
            "to it: have its writer use the participant, declare the topic with --external where "
            "it is written from outside alone, or take it out of the checkpoint's topics"
        )
    return stamp


def scan_all(
    logs: Logs, starts: Ends, ends: Ends, external: Collection[str] = ()
) -> Iterator[StampedRecord]:
    """`scan` of every partition of *starts*, one partition at a time."""
    for partition, start in starts.items():
        yield from scan(logs, partition, start, ends[partition], external)


def read_cut(
    logs: Logs,
    partition: TopicPartition,
    floor: int,
    marker: int,
    id: int,
    external: Collection[str] = (),
) -> int:
    """The offset where checkpoint *id* begins, between *floor* and *marker* in *partition* (H1).

    Raises:
        ClusterError: the log does not contain the marker any more.
        Refused and others: as `scan`.
    """
    records = scan(logs, partition, floor, marker + 1, external)
    found = cut(((record.offset, record.stamp.sn) for record in records), id)
    if found is None:
        raise ClusterError(
            f"the marker at offset {marker} of {partition} is gone: its log was cut; take a "
            "checkpoint with a new id"
        )
    return found


def nothing_to_process(
    logs: Logs, partition: TopicPartition, start: int, end: int, *, external: Collection[str] = ()
) -> bool:
    """Whether ``[start, end)`` contains only markers, of checkpoints or of transactions.

    Raises: as `scan`.
    """
    return all(record.stamp.marker for record in scan(logs, partition, start, end, external))


def read_control(
    client: ReadClient, topic: str, deadline: Deadline, since: int | None = None
) -> Control | None:
    """The content of the control topic; None if there is no topic. *since*: see `control_of`.

    Raises ClusterError, Unreachable: it cannot be read.
    """
    if not client.partitions((topic,), deadline):
        return None

    def records() -> Iterator[tuple[bytes | None, bytes | None]]:
        logs, ends = settled(client, (topic,), deadline)
        (partition,) = (state.partition for state in logs.states)
        start, end = logs.starts(deadline)[partition], ends[partition]
        log = committed_log(logs, partition)
        if start < end:
            for batch in log.batches(start, end):
                for record in batch.records(log.where):
                    yield record.key, record.value

    return until(deadline, lambda: control_of(records(), since))


def ensure_control(client: ReadClient, topics: TopicClient, topic: str, deadline: Deadline) -> None:
    """Create the control topic unless it exists; return when it has a leader.

    Raises NotAuthorized, ClusterError, OutcomeUnknown: the cluster did not create it.
    """
    if not client.partitions((topic,), deadline):
        try:
            topics.create(topic, 1, SETTINGS, deadline)
        except (ClusterError, OutcomeUnknown):
            # Another process may have created it in between.
            if not client.partitions((topic,), deadline):
                raise

    def require() -> None:
        try:
            logs = read_logs(client, (topic,), deadline)
        except UsageError as error:
            raise TimedOut(str(error), "the topic is not there yet") from None
        if len(logs.states) != 1:
            raise ClusterError(
                f"topic {topic} has {len(logs.states)} partitions and a control topic has one: "
                "name another one"
            )

    until(deadline, require)


def write_control(
    client: ReadClient,
    markers: MarkerClient,
    topic: str,
    record: tuple[bytes, bytes],
    deadline: Deadline,
) -> None:
    """Write *record*, by key and value, to the control topic, durably.

    Raises TimedOut: it was not acknowledged; the topic may contain it anyway, which does no harm.
    """
    key, value = record

    def write() -> None:
        logs = read_logs(client, (topic,), deadline)
        if not markers.write(logs.states, Small(key, value), deadline):
            raise TimedOut(f"topic {topic} took no record: try again", "no answer")

    until(deadline, write)


Lineages: TypeAlias = dict[str, list[Lineage]]
"""By group; for each partition in log order."""


@dataclass(frozen=True, slots=True)
class Sought:
    """Which partitions, groups and records matter for a decision."""

    numbers: Mapping[TopicPartition, int]
    ids: Mapping[tuple[str, int], int]
    """The same number by topic id and partition, as origins name them."""
    groups: tuple[str, ...]
    ends: Offsets | None = None
    """Skip records that matter for no cut within these ends; None: every record counts."""
    offsets: Mapping[str, Offsets] | None = None
    """The offsets of each group, none after the ends."""
    external: frozenset[str] = frozenset()
    """Topics whose records come from outside, with or without headers."""

    def traced(
        self, partition: TopicPartition, offset: int, stamp: Stamp
    ) -> tuple[str, Lineage] | None:
        """The group that wrote a record, and its lineage; None if the record does not count.

        Raises Refused: the checkpoint does not include the group that wrote it (H10).
        """
        cause = stamp.source or stamp.cause
        if cause is None:
            return None
        number = self.ids.get((cause.place.topic_id, cause.place.partition))
        if number is None:
            # An input of another timeline, or of a topic outside the checkpoint, counts as
            # external.
            return None
        if cause.group not in self.groups:
            raise Refused(
                f"unverifiable: group {cause.group} writes into {partition}, and is not in the "
                "checkpoint: name it with --group"
            )
        origin = RecordLineage(number, cause.place.offset, cause.index)
        found = Lineage(self.numbers[partition], offset, origin)
        if self.ends is None or self.offsets is None:
            return cause.group, found
        counts = needed(found, self.ends, self.offsets.get(cause.group, {}))
        return (cause.group, found) if counts else None


ReadLineages: TypeAlias = Callable[[Logs, Ends, Ends, Sought], Lineages]
"""Reads the lineage of offsets in ``[start, end)``, where the end is at most the stable end.

Raises:
    Refused: the lineage of a record is unknown, or a group is not named (H10).
    EvidenceChanged, ClusterError, Unreachable, PipelineError: a log cannot be read.
"""


def read_here(logs: Logs, starts: Ends, ends: Ends, sought: Sought) -> Lineages:
    """`ReadLineages` in this process."""
    found: Lineages = {name: [] for name in sought.groups}
    for record in scan_all(logs, starts, ends, sought.external):
        traced = sought.traced(record.partition, record.offset, record.stamp)
        if traced is not None:
            found[traced[0]].append(traced[1])
    return found
