"""Which offsets a checkpoint has: the order in which they are read, and the cut of each log.

An `ordered` checkpoint loses nothing. In a chain ``A -> g1 -> B -> g2 -> C`` each group commits
the offset of an input only after its outputs are acknowledged (at least once). Two conditions make
a checkpoint lose nothing:

1. The offsets of a group are read *before* the ends of its outputs. What the group had committed
   was produced before, so its outputs lie below ends that are read later. What it had not committed
   it processes again after a restore. The other way round, an output that is written between the
   two readings is past the end, while its input counts as processed: the output is lost.
2. The end of an output is read *before* the ends of the inputs that led to it. So every record of
   the checkpoint has its cause in the checkpoint, and no offset is past the end of its log.

Both together are the reverse topological order: the offsets of g2, the end of C, the offsets of g1,
the end of B, the end of A. Reading all offsets first would lose nothing either, but the older the
offsets are, the more is processed twice. A cycle has no such order: some output is an input of what
led to it. An application that commits before its outputs are acknowledged (at most once) breaks
condition 1, and nothing in the logs shows that.

A cut is found in its log (H1), compared with the log as it is now (H10), and lowered by lineage.

In Kafka senders write to a log directly, so a marker cannot be put before another sender's record.
But every record carries its sender's checkpoint id: the log itself shows where the checkpoint
begins. An unclean election truncates a log, and records written afterwards have a later epoch. So
the epoch of one record proves all records before it, even if the log has the same length again.

Participants stamp each record with the record that led to it. Everything here is a pure function of
such records and of offsets; all offsets are exclusive ends. The rules were found by experiment on
Kafka: H6 to H8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from breakglass.services.model import EpochHistory, TopicPartition
from breakglass.services.topic_backup.summary import EpochStart


class StoredValue:
    """A value in a document of a store: a document with another field than its own is refused."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class GroupFlow(StoredValue):
    """Topics that a group reads, and the topics into which it writes what they lead to."""

    group: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    """Empty: what the group writes is outside the checkpoint's topics."""

    def __str__(self) -> str:
        """As ``--flow`` takes it: ``g1:A,B>C``."""
        return f"{self.group}:{','.join(self.inputs)}>{','.join(self.outputs)}"


@dataclass(frozen=True, slots=True)
class ReadingStage:
    """What is read at the same time: first the offsets of these flows, then the ends."""

    flows: tuple[GroupFlow, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlowCycle:
    """Flows that lead back to where they begin, so that no order of reading exists."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    """The group that leads from the topic at the same place to the next topic."""

    def __str__(self) -> str:
        """``A > g1 > B > g2 > A``."""
        steps = zip(self.topics, self.groups, strict=True)
        path = " > ".join(f"{topic} > {group}" for topic, group in steps)
        return f"{path} > {self.topics[0]}"


def reading_order(
    flows: Sequence[GroupFlow], topics: Collection[str]
) -> tuple[ReadingStage, ...] | FlowCycle:
    """The stages in which the offsets of *flows* and the ends of *topics* are read.

    *topics* include all topics of *flows*. Flows without outputs are in the first stage.
    """
    stages: list[ReadingStage] = []
    waiting, unread = list(flows), set(topics)
    while unread:
        # The end of a topic waits for the ends of everything that its records lead to.
        ready = {topic for topic in unread if not _after(topic, flows) & unread}
        if not ready:
            return _cycle(flows, unread)
        now = [flow for flow in waiting if not flow.outputs or ready & set(flow.outputs)]
        waiting = [flow for flow in waiting if flow not in now]
        stages.append(ReadingStage(tuple(now), tuple(sorted(ready))))
        unread -= ready
    return tuple(stages)


def _after(topic: str, flows: Iterable[GroupFlow]) -> set[str]:
    return {output for flow in flows if topic in flow.inputs for output in flow.outputs}


def _cycle(flows: Sequence[GroupFlow], topics: Collection[str]) -> FlowCycle:
    """A cycle among *topics*, each of which leads to another one of them."""
    path: list[str] = [min(topics)]
    while path.count(path[-1]) == 1:
        path.append(min(_after(path[-1], flows) & set(topics)))
    around = path[path.index(path[-1]) : -1]
    following = [*around[1:], around[0]]
    groups = [
        next(flow.group for flow in flows if topic in flow.inputs and next_topic in flow.outputs)
        for topic, next_topic in zip(around, following, strict=True)
    ]
    return FlowCycle(tuple(around), tuple(groups))


class WriterKind(StrEnum):
    """Who wrote a record, as its batch shows it."""

    PARTICIPANT = "participant"
    """Its headers say what led to it (H2), whatever its producer is."""
    TRANSACTIONAL = "transactional"
    """A transaction's batch, without these headers."""
    IDEMPOTENT = "idempotent"
    """A batch with a producer id, outside a transaction."""
    UNKNOWN = "unknown"
    """A batch without a producer id."""


class Committing(StrEnum):
    """How a group commits its offsets."""

    PARTICIPANT = "participant"
    """With a checkpoint's id in the metadata, or noted in the control topic."""
    TRANSACTIONAL = "transactional"
    """In transactions alone, as the last part of ``__consumer_offsets`` shows."""
    PLAIN = "plain"
    """Outside transactions, at least at times."""
    UNKNOWN = "unknown"
    """No commit was seen, or ``__consumer_offsets`` cannot be read."""


@dataclass(frozen=True, slots=True)
class TopicEvidence(StoredValue):
    """The last part of a topic's logs."""

    topic: str
    partitions: int
    records: int
    """Committed records that were looked at, without markers; 0: the topic may be empty."""
    writers: tuple[WriterKind, ...] = ()
    stamped: bool = True
    """Every record says what led to it."""
    transactional: bool = True
    """Every record was written in a transaction."""
    unstamped: str = ""
    """``orders-0 at offset 12``: a record that does not say what led to it; empty: none."""
    compacted: bool = False
    """Records may be compacted away before they are copied."""


@dataclass(frozen=True, slots=True)
class GroupEvidence(StoredValue):
    """A group on the topics: with offsets there, or with members that are assigned there."""

    name: str
    kind: str
    """Kafka's type: ``consumer``, ``classic``, ``share``, ``streams``; ``?`` if not known."""
    state: str
    """Kafka's state: ``Stable``, ``Empty``, ...; ``?`` if not known."""
    reads: tuple[str, ...]
    """Of the checkpoint's topics."""
    commits: Committing = Committing.UNKNOWN
    writes: tuple[str, ...] = ()
    """The topics in which transactions that commit its offsets have records, as far as seen."""

    @property
    def shared(self) -> bool:
        """Whether it is a share group, which has no offset that could be saved."""
        return self.kind == "share"


@dataclass(frozen=True, slots=True)
class CheckpointEvidence(StoredValue):
    """Everything that a promise depends on, at one moment."""

    topics: tuple[TopicEvidence, ...]
    groups: tuple[GroupEvidence, ...]


def cut(records: Iterable[tuple[int, int]], checkpoint: int) -> int | None:
    """The position of the first record that carries an id of *checkpoint* or greater, exclusive.

    *records* are positions and ids of committed records, markers as well as data, in the log's
    order. None: no such record, so the checkpoint has not reached this partition.
    """
    return next((position for position, id in records if id >= checkpoint), None)


NEW_ID = "take a checkpoint with a new id"


def diverged(partition: TopicPartition, wanted: Iterable[EpochStart], now: EpochHistory) -> str:
    """Why the log differs from the log with the *wanted* epochs; empty if it does not differ.

    Offsets that retention has removed prove nothing, and are not reported.
    """
    for one in wanted:
        found = now.epoch_at(one.offset)
        if one.offset < now.complete_from or found == one.epoch:
            continue
        later = [held for held in now.ranges if held.epoch > one.epoch]
        if found is None:
            end = now.ranges[-1].end if now.ranges else now.complete_from
            is_now = f"is gone: the log ends at {end} in epoch {now.last_written}"
        else:
            is_now = f"is of epoch {found} now"
            end = later[0].start if later else one.offset
        return (
            f"leader epoch diverged: offset {one.offset} of {partition} was of epoch {one.epoch} "
            f"when the checkpoint was cut and {is_now}; an unclean election cut the log at {end}: "
            f"{NEW_ID}"
        )
    return ""


Offsets = Mapping[int, int]
"""By the partition's number."""


@dataclass(frozen=True, slots=True, order=True)
class RecordLineage:
    """A record's identity: its cause, and its number among the outputs of that cause."""

    partition: int
    offset: int
    index: int = 0


@dataclass(frozen=True, slots=True)
class Lineage:
    """A record's position and its origin."""

    partition: int
    offset: int
    origin: RecordLineage | None
    """None: the record came from outside."""


@dataclass(frozen=True, slots=True)
class LoweredCut:
    """The greatest consistent cut within the given ends."""

    positions: dict[int, int]
    offsets: dict[int, int]
    """The group's offset in each partition: the end of its processed records in the cut."""
    rolled_back: dict[int, int]
    """The number of offsets by which each log was lowered."""
    rounds: int


def greatest_cut(
    floors: Offsets, ends: Offsets, committed: Offsets, records: Sequence[Lineage]
) -> LoweredCut:
    """Lower *ends* until the cut contains no record without the record that led to it (H8).

    Records below the floors existed before any end was read. The records that led to them are
    therefore before the ends, and were processed: they are in every cut, and need not be read.

    Args:
        floors: the ends as they were read first; no log is lowered below them.
        ends: the ends as they were read again, after all of *floors*.
        committed: the group's offsets, read after all of *ends*; an at-least-once group must have
            reached *ends*, because its outputs precede its commits.
        records: those in ``[floor, high watermark)`` of each log; others do not matter.
    """
    read = [record for record in records if record.offset >= floors[record.partition]]
    cut, rounds = dict(ends), 0
    while True:
        rounds += 1
        offsets = {one: min(committed.get(one, 0), end) for one, end in cut.items()}
        lowered = dict(cut)
        for record in read:
            within = record.offset < lowered[record.partition]
            if within and not _processed(record.origin, offsets):
                lowered[record.partition] = record.offset
        if lowered == cut:
            rolled_back = {one: ends[one] - end for one, end in cut.items()}
            return LoweredCut(cut, offsets, rolled_back, rounds)
        cut = lowered


def _processed(origin: RecordLineage | None, offsets: Offsets) -> bool:
    return origin is None or origin.offset < offsets.get(origin.partition, 0)


def needed(one: Lineage, ends: Offsets, offsets: Offsets) -> bool:
    """Whether a record matters for any cut within *ends*; most records of a log do not.

    *offsets* are the group's, none after the ends. A record after the ends whose cause was not
    processed within them neither lowers a cut nor is in transit.
    """
    if one.origin is None:
        return False
    return one.offset < ends[one.partition] or _processed(one.origin, offsets)


def channel_state(
    cut: Offsets,
    offsets: Offsets,
    records: Iterable[Lineage],
    inside: Collection[RecordLineage] = (),
) -> tuple[Lineage, ...]:
    """The records after the cut whose cause was processed in it: no sender repeats them (H6).

    A restore writes them after the cut, each once, in log order. *inside* are the origins in the
    cut, in case a group has written a record twice.
    """
    seen = set(inside)
    found = []
    for record in sorted(records, key=lambda each: (each.partition, each.offset)):
        behind = record.offset >= cut[record.partition]
        if not behind or record.origin is None or record.origin in seen:
            continue
        if _processed(record.origin, offsets):
            seen.add(record.origin)
            found.append(record)
    return tuple(found)


def lowered_offsets(
    cut: Offsets,
    offsets: Offsets,
    records: Iterable[Lineage],
    inside: Collection[RecordLineage] = (),
) -> dict[int, int]:
    """Group offsets from which a group writes again every record in transit over the cut (H7).

    For groups whose outputs are repeatable and that skip duplicates. *inside* as in
    `channel_state`.
    """
    found = dict(offsets)
    for lineage in channel_state(cut, offsets, records, inside):
        assert lineage.origin is not None
        found[lineage.origin.partition] = min(
            found[lineage.origin.partition], lineage.origin.offset
        )
    return found
