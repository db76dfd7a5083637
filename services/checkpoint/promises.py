"""What a checkpoint is to contain, which level's promise holds, and what the others lack.

An `Explanation` is a pure function of what the logs show and of what the operator declares, so that
`checkpoint explain`, `checkpoint take` and the screen say the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC
from breakglass.services.checkpoint.protocol.lineage import (
    CheckpointEvidence,
    Committing,
    FlowCycle,
    GroupEvidence,
    GroupFlow,
    TopicEvidence,
    WriterKind,
    reading_order,
)
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level, TakeDocument
from breakglass.services.errors import Refused, UsageError

BY_STRENGTH = (Level.COORDINATED, Level.VERIFIED, Level.TRANSACTIONAL, Level.ORDERED)
"""The levels that promise something, the strongest first; the first three promise the same."""
INTERNAL = ("-repartition", "-changelog")
"""How the names end of the topics that Kafka Streams creates for an application."""


MASTER = "local[*,4]"


@dataclass(frozen=True, slots=True)
class CopySettings:
    """How checkpoints are taken and copied."""

    node: int = 0
    """This machine's number among the nodes that copy."""
    drain_seconds: float = patience.DRAIN
    """Seconds for groups to process what is in a checkpoint, and for transactions to end."""
    rate: float | None = None
    """Maximum bytes per second; None: unlimited."""
    master: str = MASTER
    """Where Spark runs; Spark is started for large logs only."""
    control_topic: str = CONTROL_TOPIC


@dataclass(frozen=True, slots=True)
class WantedCheckpoint:
    """What a checkpoint is to contain, as the operator declares it."""

    topics: tuple[str, ...]
    groups: Mapping[str, GroupPolicy] = field(default_factory=dict)
    level: Level | None = None
    """None: the strongest level whose promise holds."""
    external: tuple[str, ...] = ()
    """Topics that are written from outside alone."""
    flows: tuple[GroupFlow, ...] = ()
    """The topology of an ordered checkpoint."""
    hold_retention: bool = False
    """Retention and compaction are suspended while the checkpoint is copied."""
    how: CopySettings = CopySettings()

    @property
    def writing(self) -> tuple[str, ...]:
        """The groups that write into the topics."""
        return tuple(name for name, policy in self.groups.items() if policy.writes)

    def at(self, level: Level) -> WantedCheckpoint:
        """The same with the *level* that was asked for or was chosen."""
        # Flows are of the level ordered: a stronger level that was chosen does not use them.
        unused = self.level is None and level is not Level.ORDERED
        return replace(self, level=level, flows=() if unused else self.flows)

    def require_coherent(self) -> None:
        """Return if the options agree with each other.

        Raises:
            UsageError: no topic is named, or an option names a topic that --topics does not.
            Refused: an ordered checkpoint cannot be taken with these flows.
        """
        if not self.topics:
            raise UsageError("No topic is named: give --topics.")
        absent = sorted(set(self.external) - set(self.topics))
        if absent:
            raise UsageError(
                f"--external names {', '.join(absent)}, not among --topics: check the spelling."
            )
        if self.level is Level.ORDERED:
            for fault in flow_faults(self.topics, self.groups, self.flows):
                raise Refused(fault)
        elif self.flows:
            raise UsageError(f"--flow is of the level ordered, and the level is {self.level}.")


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
class Explanation:
    """What the logs show of a checkpoint's topics and groups, and what follows from that."""

    evidence: CheckpointEvidence
    wanted: WantedCheckpoint

    @property
    def levels(self) -> tuple[LevelOutlook, ...]:
        """All levels that promise something, the strongest first.

        `coordinated` and `verified` promise the same; `verified` comes first where no record has
        the participant's headers, because markers would prove nothing more there.
        """
        topics, groups, wanted = self.evidence.topics, self.evidence.groups, self.wanted
        common = (*group_faults(groups, wanted.groups), *_compacted(topics, wanted))
        inside = [topic for topic in topics if topic.topic not in wanted.external]
        unstamped = (*common, *unstamped_topics(inside))
        names = [topic.topic for topic in topics]
        missing = {
            Level.COORDINATED: unstamped,
            Level.VERIFIED: unstamped,
            Level.TRANSACTIONAL: (*common, *_outside_transactions(inside, groups, wanted)),
            Level.ORDERED: (
                *common,
                *flow_faults(names, wanted.groups, wanted.flows),
                *flows_elsewhere(groups, wanted.flows),
            ),
        }
        stamped = any(WriterKind.PARTICIPANT in topic.writers for topic in topics)
        order = BY_STRENGTH if stamped else (Level.VERIFIED, Level.COORDINATED, *BY_STRENGTH[2:])
        return tuple(LevelOutlook(level, missing[level]) for level in order)

    @property
    def strongest(self) -> Level | None:
        """The strongest level that holds; None: no level does."""
        return next((outlook.level for outlook in self.levels if outlook.holds), None)

    def missing(self, level: Level) -> tuple[str, ...]:
        """What is missing for *level*; empty if it holds, or promises nothing."""
        found = (outlook.missing for outlook in self.levels if outlook.level == level)
        return next(found, ())

    @property
    def flows(self) -> tuple[str, ...]:
        """The flows that were declared, else a proposal, to be completed and confirmed."""
        return tuple(map(str, self.wanted.flows)) or proposed_flows(self.evidence)

    def require_level(self) -> Level:
        """The strongest level whose promise holds.

        Raises Refused: no promise holds; the message says what is missing for the first level.
        """
        first = self.levels[0]
        strongest = self.strongest
        if strongest is None:
            raise Refused(
                f"no promise holds. For {first.level}: {first.missing[0]}. `breakglass checkpoint "
                "explain` has all that is missing; --level vector takes it without a promise"
            )
        return strongest

    def require(self, level: Level) -> None:
        """Return if the promise of *level* holds. Raises: Refused."""
        for missing in self.missing(level):
            raise Refused(
                f"the promise of {level} does not hold, so nothing was written: {missing}. "
                "`breakglass checkpoint explain` has all that is missing"
            )


def require_declared(wanted: WantedCheckpoint | TakeDocument, evidence: CheckpointEvidence) -> None:
    """Return if the promise of *wanted* can hold by the *evidence* (H10).

    Every group on the topics has to be saved or declared, whatever its kind: a group that is
    missing would be restored without offsets. The prefixes of the logs have to say what led to
    their records, even if nothing was written while the checkpoint was taken.

    Raises Refused: a group is not named, or a record has an unknown cause.
    """
    faults = list(group_faults(evidence.groups, wanted.groups))
    if wanted.level in (Level.COORDINATED, Level.VERIFIED):
        inside = [topic for topic in evidence.topics if topic.topic not in wanted.external]
        faults += unstamped_topics(inside)
    if wanted.level is Level.ORDERED:
        faults += flows_elsewhere(evidence.groups, wanted.flows)
    if faults:
        raise Refused(f"unverifiable: {faults[0]}")


def group_faults(
    groups: Sequence[GroupEvidence], declared: Mapping[str, GroupPolicy]
) -> Iterator[str]:
    """The groups on the topics that are neither saved nor declared, each with its remedy (H10)."""
    for group in groups:
        name, policy, topics = group.name, declared.get(group.name), ", ".join(group.reads)
        if group.shared and policy is not GroupPolicy.LEFT_OUT:
            yield (
                f"share group {name} reads {topics}, and the progress of a share group cannot be "
                f"saved: declare it with --group {quote(name)}=left-out"
            )
        elif policy is None and group.commits is Committing.PARTICIPANT:
            yield (
                f"group {name} takes part in checkpoints of {topics} and is not named, so a "
                f"restore would have it process everything once more: add --group {quote(name)}="
                "exactly-once, or =at-least-once, by how it works; delete an obsolete "
                "group with kafka-consumer-groups.sh"
            )
        elif policy is None:
            yield (
                f"group {name} ({group.kind}) reads {topics} and is not named, so a restore would "
                f"not have its offsets: add --group {quote(name)}=reader where it writes into none "
                f"of the topics, --flow {quote(name + ':' + ','.join(group.reads) + '>OUTPUTS')} "
                f"for the level ordered where it does, or --group {quote(name)}=left-out where "
                "its offsets are not needed"
            )


def _compacted(topics: Sequence[TopicEvidence], wanted: WantedCheckpoint) -> Iterator[str]:
    names = [topic.topic for topic in topics if topic.compacted]
    if names and not wanted.hold_retention:
        are = f"topic {names[0]} is" if len(names) == 1 else f"topics {', '.join(names)} are"
        yield (f"{are} compacted, which may remove what the checkpoint needs: add --hold-retention")


def unstamped_topics(topics: Sequence[TopicEvidence]) -> Iterator[str]:
    """The topics with records of unknown causes, each with its remedy (H10)."""
    for topic in topics:
        if not topic.stamped:
            writers = ", ".join(one for one in topic.writers if one is not WriterKind.PARTICIPANT)
            yield (
                f"the record {topic.unstamped} says nothing of what led to it (writer: {writers}): "
                f"have its writer use the participant, add --external {topic.topic} where the "
                "topic is written from outside alone, or take it out of the checkpoint's topics"
            )


def _outside_transactions(
    topics: Sequence[TopicEvidence], groups: Sequence[GroupEvidence], wanted: WantedCheckpoint
) -> Iterator[str]:
    for topic in topics:
        if not topic.transactional:
            others = ", ".join(sorted(set(topic.writers) - {WriterKind.TRANSACTIONAL}))
            yield (
                f"topic {topic.topic} has records outside transactions ({others}): add --external "
                f"{topic.topic} where the topic is written from outside alone"
            )
    for group in groups:
        policy = wanted.groups.get(group.name)
        if policy is not None and policy.writes and group.commits is not Committing.TRANSACTIONAL:
            yield (
                f"group {group.name} was not seen to commit in transactions alone (commits: "
                f"{group.commits})"
            )


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
