"""Checkpoints in words: options, levels and their promises, failures, explanations, notes.

The same explanation is what `checkpoint explain` prints, what `checkpoint take` without a level
chooses by, and what the Checkpoints screen shows.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC
from breakglass.services.checkpoint.promises import Explanation, WantedCheckpoint
from breakglass.services.checkpoint.protocol.lineage import GroupEvidence, GroupFlow, TopicEvidence
from breakglass.services.checkpoint.protocol.values import NotHigher, Status
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level, NumberedPartition
from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition
from breakglass.services.errors import UsageError
from breakglass.services.pipeline.restore.options import REMOVED_IN_4

if TYPE_CHECKING:
    from breakglass.services.checkpoint.spark.restore import CheckpointPlan
    from breakglass.services.kafka.read_client import ReadClient


@dataclass(frozen=True, slots=True)
class RestoreAsked:
    """Where a checkpoint is to be restored."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """New topic name by old name."""
    suffix: str = ""
    """Appended to the name of every topic that *renamed* does not contain."""
    resume: bool = False
    control_topic: str = CONTROL_TOPIC


def same_again(found: StoredCheckpoint) -> str:
    """The options that request another checkpoint of the same content; empty if never requested."""
    if found.take is None:
        return ""
    words = ["--topics", ",".join(found.take.topics)]
    for name, policy in sorted(found.take.groups.items()):
        words += ["--group", f"{name}={policy}"]
    for topic in found.take.external:
        words += ["--external", topic]
    for flow in found.take.flows:
        words += ["--flow", str(flow)]
    return shlex.join([*words, "--level", found.take.level])


def policies(given: Iterable[str] | None) -> dict[str, GroupPolicy]:
    """The groups that the options name, each with its policy.

    Raises UsageError: a group is not written NAME=POLICY, or is named twice.
    """
    found: dict[str, GroupPolicy] = {}
    for text in given or ():
        name, _, policy = text.rpartition("=")
        if not name or policy not in set(GroupPolicy) or name in found:
            raise UsageError(
                f"--group {text!r} is not written NAME=exactly-once, =at-least-once, =reader or "
                "=left-out, or is named twice: write each group once, so."
            )
        found[name] = GroupPolicy(policy)
    return found


def flows_in(given: Iterable[str] | None) -> tuple[GroupFlow, ...]:
    """The flows that the options name.

    Raises UsageError: a flow is not written GROUP:INPUTS>OUTPUTS, or an input of a group is in two.
    """
    found: list[GroupFlow] = []
    for text in given or ():
        group, colon, topics = text.rpartition(":")
        before, arrow, after = topics.partition(">")
        inputs, outputs = _names(before), _names(after)
        if not group or not colon or not arrow or not inputs or ">" in after:
            raise UsageError(
                f"--flow {text!r} is not written GROUP:INPUT,INPUT>OUTPUT,OUTPUT: write the topics "
                "that a group reads, then those into which it writes what they lead to."
            )
        if "?" in outputs:
            raise UsageError(
                f"--flow {text!r} does not say into which topics group {group} writes: put their "
                "names in place of the ?, or nothing where they are not in the checkpoint."
            )
        twice = {topic for flow in found if flow.group == group for topic in flow.inputs}
        if twice & set(inputs):
            raise UsageError(
                f"--flow names {min(twice & set(inputs))} twice for group {group}: write each "
                "input of a group once."
            )
        found.append(GroupFlow(group, inputs, outputs))
    return tuple(found)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def with_flows(
    groups: Mapping[str, GroupPolicy], flows: Iterable[GroupFlow]
) -> dict[str, GroupPolicy]:
    """*groups*, with those of *flows* that no option names: they process at least once."""
    return {**{flow.group: GroupPolicy.AT_LEAST_ONCE for flow in flows}, **groups}


UNKNOWN = "unknown"
"""In place of a level: the checkpoint was never requested."""


def level_of(found: StoredCheckpoint) -> str:
    """The word for the checkpoint's level."""
    return found.level or UNKNOWN


def promise(found: StoredCheckpoint) -> str:
    """What a user may rely on after a restore of the checkpoint."""
    if found.unread is not None:
        return f"{found.state}: nothing is promised while its documents cannot be read."
    level, cut = found.level or Level.VECTOR, found.cut
    promised = PROMISES[level]
    if level is Level.TRANSACTIONAL and cut is not None:
        lowered = sum(cut.rolled_back.values()) - sum(map(len, cut.in_transit.values()))
        left_out = "?" if cut.left_out is None else f"{cut.left_out:,}"
        promised = (
            f"transactional: lowered by {lowered:,} offsets, so that every transaction is in it as "
            f"a whole or not at all; {left_out} left out."
        )
    elif level is Level.VERIFIED:
        back = f"{sum(cut.rolled_back.values()):,}" if cut else "?"
        promised = (
            f"verified: lowered by {back} offsets to be consistent by what led to each record."
        )
    return promised if found.proved else f"{promised} {NOT_PROVED}"


NOT_PROVED = (
    "Not proved: an older release wrote its groups, offsets and policies without sums, so that an "
    "edit of them cannot be found."
)


PROMISES: Mapping[Level, str] = {
    Level.VECTOR: (
        "vector: ends and offsets as they were read, unverifiable: nothing is promised."
    ),
    Level.VERIFIED: "verified: lowered to be consistent by what led to each record.",
    Level.ORDERED: (
        "ordered: read against the flow of records: nothing is lost, and at-least-once groups "
        "process some records twice."
    ),
    Level.COORDINATED: "coordinated: cut at the id that every record carries.",
    Level.TRANSACTIONAL: (
        "transactional: every transaction is in it as a whole or not at all, with its offsets."
    ),
}
"""For each level, whatever the checkpoint's status."""


ANOTHER_FAILED = "another partition of the checkpoint has failed"
MOST = 5
"""Maximum number of runs of partitions that are named."""


def why_failed(part: StoredPartition, found: StoredCheckpoint) -> str | None:
    """Why one partition of *found* has failed; None if it has not."""
    if part.status is not Status.FAILED:
        return None
    if part.failure is not None:
        return part.failure
    return ANOTHER_FAILED if found.failed is None else found.failed.reason


def reasons(found: StoredCheckpoint) -> Iterator[str]:
    """Why the checkpoint has failed: as a whole, then by partition, equal reasons combined."""
    if found.failure:
        yield found.failure
    parts: dict[str, list[StoredPartition]] = {}
    for partition in found.partitions:
        if partition.failure is not None:
            parts.setdefault(partition.failure, []).append(partition)
    for reason, of in parts.items():
        yield f"{named(of)}: {reason}"


def named(parts: Sequence[StoredPartition]) -> str:
    """``orders-0..2, orders-7 (4 partitions)``; a single partition by its name alone."""
    if len(parts) == 1:
        return parts[0].name
    # Consecutive partitions of one topic, combined.
    runs: list[str] = []
    first = ""
    before: NumberedPartition | None = None
    for part in parts:
        one = part.subject
        if one and before and (one.topic, one.partition) == (before.topic, before.partition + 1):
            runs[-1] = f"{first}..{one.partition}"
        else:
            first = part.name
            runs.append(first)
        before = one
    more = ", ..." if len(runs) > MOST else ""
    return f"{', '.join(runs[:MOST])}{more} ({len(parts):,} partitions)"


def not_higher(refused: NotHigher) -> str:
    """Why an id is unavailable, and what to do; Zeebe's clients get Zeebe's words."""
    return (
        f"checkpoint {refused.requested} cannot be taken: ids increase, and {refused.latest} was "
        "asked for before, deleted and failed ones counted. Leave --id out for the next one, or "
        f"give one above {refused.latest}."
    )


def overtaken(refused: NotHigher) -> str:
    """The same for an id that was assigned automatically, and that was free a moment ago."""
    return (
        f"checkpoint {refused.latest} was asked for in between, so {refused.requested} is not the "
        "next one any more: begin again"
    )


def explain(client: ReadClient, wanted: WantedCheckpoint) -> Explanation:
    """The explanation of a checkpoint that would be taken now.

    Raises:
        UsageError: a topic does not exist.
        ClusterError, NotAuthorized, Unreachable: something cannot be read.
    """
    from breakglass.services.checkpoint.kafka.evidence import read_evidence
    from breakglass.services.kafka.wire.deadline import Deadline

    deadline = Deadline.after(patience.JOB)
    evidence = read_evidence(client, wanted.topics, wanted.how.control_topic, deadline)
    return Explanation(evidence, wanted)


def explained(found: StoredCheckpoint) -> Explanation | None:
    """The explanation of a stored checkpoint; None if its content was never decided."""
    take, cut = found.take, found.cut
    if take is None or cut is None or cut.evidence is None:
        return None
    # It is copied: compaction has removed nothing that it needs.
    wanted = WantedCheckpoint(
        take.topics, take.groups, take.level, take.external, take.flows, hold_retention=True
    )
    return Explanation(cut.evidence, wanted)


def topic_words(topic: TopicEvidence, wanted: WantedCheckpoint) -> str:
    """``orders: participant, idempotent (external)``; ``?`` where no record shows a writer."""
    writers = ", ".join(topic.writers) or "?"
    external = " (external)" if topic.topic in wanted.external else ""
    return f"{topic.topic}: {writers}{external}"


def group_words(group: GroupEvidence) -> str:
    """``billing commits: transactional``."""
    return f"{group.name} commits: {group.commits}"


def level_words(explanation: Explanation, promised: Level | None = None) -> Iterator[str]:
    """A line for each level: whether its promise holds, else what is missing.

    With *promised*, of a checkpoint that was taken, only what is missing for better levels.
    """
    for outlook in explanation.levels:
        if promised is not None and outlook.level == promised:
            return
        if outlook.holds and promised is None:
            yield f"{outlook.level}: possible"
        for missing in outlook.missing:
            yield f"{outlook.level}: {missing}"


KEPT = "the topic that is there keeps its own"
REMOVED = "brokers of today do not have it"


@dataclass(frozen=True, slots=True)
class SettingsGiven:
    """The settings of one restored topic."""

    target: str
    settings: Mapping[str, str]
    """The topic's own settings after the restore; all other settings are the brokers' defaults."""
    left_out: Mapping[str, str]
    """Settings of the copied topic that the restored topic lacks: the reason by name."""


def settings_given(plan: CheckpointPlan) -> tuple[SettingsGiven, ...]:
    """The settings of each topic of *plan* after the restore, and the settings that it lacks.

    Raises StorageError: the copy cannot be read.
    """
    saved = {copy.topic: copy.identity().config for copy in plan.copies}
    return tuple(
        given(topic.target, topic.settings, saved[topic.topic], exists=topic.exists)
        for topic in plan.plan.topics
    )


def given(
    target: str, own: Mapping[str, str], saved: Mapping[str, str], *, exists: bool
) -> SettingsGiven:
    """The settings that *target* has from *saved*; *own* are its settings after the restore."""
    settings = {name: value for name, value in own.items() if name not in REMOVED_IN_4}
    left_out = {
        name: REMOVED if name in REMOVED_IN_4 else KEPT
        for name, value in sorted(saved.items())
        if name in REMOVED_IN_4 or (exists and settings.get(name) != value)
    }
    return SettingsGiven(target, dict(sorted(settings.items())), left_out)


def settings_told(one: SettingsGiven) -> Iterator[str]:
    """The settings as text, one line each."""
    own = ", ".join(f"{name}={value}" for name, value in one.settings.items())
    yield f"{one.target}  settings: {own or 'none of its own, the brokers have them'}"
    for name, why in one.left_out.items():
        yield f"{one.target}  {name} left out: {why}"
