"""The order in which an `ordered` checkpoint reads offsets and ends, so that nothing is lost.

In a chain ``A -> g1 -> B -> g2 -> C`` each group commits the offset of an input only after its
outputs are acknowledged (at least once). Two conditions make a checkpoint lose nothing:

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

What logs and group coordinators show of who takes part in a checkpoint: values, without I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar


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
