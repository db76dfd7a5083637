"""Which level's promise holds for topics and groups, and what is missing for the others.

`strongest_promise` is a pure function of what the logs show and of what the operator declares, so
that `checkpoint explain`, `checkpoint take` and the screen say the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from breakglass.services.checkpoint.protocol.flows import (
    CheckpointEvidence,
    Committing,
    FlowCycle,
    GroupEvidence,
    GroupFlow,
    TopicEvidence,
    WriterKind,
    reading_order,
)
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level

BY_STRENGTH = (Level.COORDINATED, Level.VERIFIED, Level.TRANSACTIONAL, Level.ORDERED)
"""The levels that promise something, the strongest first; the first three promise the same."""
INTERNAL = ("-repartition", "-changelog")
"""How the names end of the topics that Kafka Streams creates for an application."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What the operator says of a checkpoint's topics and groups."""

    groups: Mapping[str, GroupPolicy] = field(default_factory=dict)
    external: frozenset[str] = frozenset()
    flows: tuple[GroupFlow, ...] = ()
    retention_held: bool = False
    """Compaction is suspended while the checkpoint is copied."""


@dataclass(frozen=True, slots=True)
class LevelOutlook:
    """Whether one level's promise holds."""

    level: Level
    missing: tuple[str, ...]
    """What is missing, each with its remedy; empty: the promise holds."""

    @property
    def holds(self) -> bool:
        return not self.missing


@dataclass(frozen=True, slots=True)
class PromiseOutlook:
    """All levels that promise something, the strongest first."""

    levels: tuple[LevelOutlook, ...]

    @property
    def strongest(self) -> Level | None:
        """The strongest level that holds; None: no level does."""
        return next((outlook.level for outlook in self.levels if outlook.holds), None)

    def missing(self, level: Level) -> tuple[str, ...]:
        """What is missing for *level*; empty if it holds, or promises nothing."""
        found = (outlook.missing for outlook in self.levels if outlook.level == level)
        return next(found, ())


def strongest_promise(
    topics: Sequence[TopicEvidence], groups: Sequence[GroupEvidence], declared: Declared
) -> PromiseOutlook:
    """Which promise holds for *topics* with *groups* on them, as *declared*.

    `coordinated` and `verified` promise the same; `verified` comes first where no record has the
    participant's headers, because markers would prove nothing more there.
    """
    common = (*group_faults(groups, declared.groups), *_compacted(topics, declared))
    inside = [topic for topic in topics if topic.topic not in declared.external]
    unstamped = (*common, *unstamped_topics(inside))
    missing = {
        Level.COORDINATED: unstamped,
        Level.VERIFIED: unstamped,
        Level.TRANSACTIONAL: (*common, *_outside_transactions(inside, groups, declared)),
        Level.ORDERED: (*common, *_unordered(topics, groups, declared)),
    }
    stamped = any(WriterKind.PARTICIPANT in topic.writers for topic in topics)
    order = BY_STRENGTH if stamped else (Level.VERIFIED, Level.COORDINATED, *BY_STRENGTH[2:])
    return PromiseOutlook(tuple(LevelOutlook(level, missing[level]) for level in order))


def group_faults(
    groups: Sequence[GroupEvidence], declared: Mapping[str, GroupPolicy]
) -> Iterator[str]:
    """The groups on the topics that are neither saved nor declared, each with its remedy (H10)."""
    for group in groups:
        policy = declared.get(group.name)
        if group.shared and policy is not GroupPolicy.LEFT_OUT:
            yield shared_group(group)
        elif policy is None:
            yield unnamed_group(group)


def unnamed_group(group: GroupEvidence) -> str:
    """The remedy for a *group* on the topics that no option names (H10)."""
    name, topics = group.name, ", ".join(group.reads)
    if group.commits is Committing.PARTICIPANT:
        return (
            f"group {name} takes part in checkpoints of {topics} and is not named, so a restore "
            f"would have it process everything once more: add --group {name}=exactly-once, or "
            "=at-least-once, by how it works; delete an obsolete group with "
            "kafka-consumer-groups.sh"
        )
    flow = f"{name}:{','.join(group.reads)}>OUTPUTS"
    return (
        f"group {name} ({group.kind}) reads {topics} and is not named, so a restore would not have "
        f"its offsets: add --group {name}=reader where it writes into none of the topics, --flow "
        f"{flow} for the level ordered where it does, or --group {name}=left-out where its "
        "offsets are not needed"
    )


def shared_group(group: GroupEvidence) -> str:
    """The remedy for a share group, whose progress is no offset."""
    return (
        f"share group {group.name} reads {', '.join(group.reads)}, and the progress of a share "
        f"group cannot be saved: declare it with --group {group.name}=left-out"
    )


def _compacted(topics: Sequence[TopicEvidence], declared: Declared) -> Iterator[str]:
    names = [topic.topic for topic in topics if topic.compacted]
    if names and not declared.retention_held:
        are = f"topic {names[0]} is" if len(names) == 1 else f"topics {', '.join(names)} are"
        yield (f"{are} compacted, which may remove what the checkpoint needs: add --hold-retention")


def unstamped_topics(topics: Sequence[TopicEvidence]) -> Iterator[str]:
    """The topics with records of unknown causes, each with its remedy (H10)."""
    for topic in topics:
        if not topic.stamped:
            yield unstamped_topic(topic)


def unstamped_topic(topic: TopicEvidence) -> str:
    """The remedy for a topic whose records do not say what led to them (H10)."""
    writers = ", ".join(writer for writer in topic.writers if writer is not WriterKind.PARTICIPANT)
    return (
        f"the record {topic.unstamped} says nothing of what led to it (writer: {writers}): have "
        f"its writer use the participant, add --external {topic.topic} where the topic is written "
        "from outside alone, or take it out of the checkpoint's topics"
    )


def _outside_transactions(
    topics: Sequence[TopicEvidence], groups: Sequence[GroupEvidence], declared: Declared
) -> Iterator[str]:
    for topic in topics:
        if not topic.transactional:
            others = ", ".join(sorted(set(topic.writers) - {WriterKind.TRANSACTIONAL}))
            yield (
                f"topic {topic.topic} has records outside transactions ({others}): add --external "
                f"{topic.topic} where the topic is written from outside alone"
            )
    for group in groups:
        policy = declared.groups.get(group.name)
        if policy is not None and policy.writes and group.commits is not Committing.TRANSACTIONAL:
            yield (
                f"group {group.name} was not seen to commit in transactions alone (commits: "
                f"{group.commits})"
            )


def _unordered(
    topics: Sequence[TopicEvidence], groups: Sequence[GroupEvidence], declared: Declared
) -> Iterator[str]:
    yield from flow_faults([topic.topic for topic in topics], declared.groups, declared.flows)
    yield from flows_elsewhere(groups, declared.flows)


def flows_elsewhere(groups: Sequence[GroupEvidence], flows: Sequence[GroupFlow]) -> Iterator[str]:
    """Where *flows* differ from what the *groups* on the topics read."""
    reads = {group.name: set(group.reads) for group in groups}
    for name in sorted({flow.group for flow in flows}):
        named = {topic for flow in flows if flow.group == name for topic in flow.inputs}
        if name not in reads:
            yield f"group {name} has a flow, and has committed nothing: check the spelling"
            continue
        for topic in sorted(reads[name] - named):
            yield f"group {name} reads {topic} too, and no flow says so: add it to its --flow"
        for topic in sorted(named - reads[name]):
            yield f"group {name} has committed nothing on {topic}: take {topic} out of its --flow"


def flow_faults(
    topics: Sequence[str], groups: Mapping[str, GroupPolicy], flows: Sequence[GroupFlow]
) -> Iterator[str]:
    """Why an ordered checkpoint cannot be taken of *topics* with these *flows*."""
    flowing = {flow.group for flow in flows}
    for name, policy in sorted(groups.items()):
        if policy.writes and name not in flowing:
            yield (
                f"nothing says which topics group {name} reads and writes: add --flow "
                f"{name}:INPUTS>OUTPUTS, or --group {name}=reader where it writes into none of the "
                "topics"
            )
        if name in flowing and policy is not GroupPolicy.AT_LEAST_ONCE:
            yield (
                f"group {name} has a flow and is named {policy}: after an ordered checkpoint a "
                f"group processes at least once, so name it --group {name}=at-least-once"
            )
    for flow in flows:
        absent = sorted({*flow.inputs, *flow.outputs} - set(topics))
        if absent:
            yield f"the flow {flow} names {', '.join(absent)}, not among --topics: add it there"
            return
    order = reading_order(flows, topics)
    if isinstance(order, FlowCycle):
        yield (
            f"the flows lead back to where they begin ({order}), and a cycle has no order of "
            "reading that loses nothing: use the participant, or take the topics apart"
        )


def proposed_flows(evidence: CheckpointEvidence) -> tuple[str, ...]:
    """A ``--flow`` for each group that may write, to be completed and confirmed by the operator.

    Inputs are what the group reads. Outputs are topics in which its transactions have records, and
    internal topics of Kafka Streams that bear its name; ``?`` stands for outputs that no log shows.
    """
    names = [topic.topic for topic in evidence.topics]
    found: list[str] = []
    for group in evidence.groups:
        if group.shared or not group.reads:
            continue
        internal = {
            name for name in names if name.startswith(f"{group.name}-") and name.endswith(INTERNAL)
        }
        outputs = {*group.writes, *internal}
        # A topic that an application writes for itself is an output of what comes before it.
        between = outputs & set(group.reads)
        outside = [topic for topic in group.reads if topic not in between]
        if between:
            found.append(_flow(group.name, sorted(between), outputs - between))
        found.append(_flow(group.name, outside, outputs))
    return tuple(found)


def _flow(group: str, inputs: Sequence[str], outputs: Collection[str]) -> str:
    return f"{group}:{','.join(inputs)}>{','.join(sorted(outputs)) or '?'}"
