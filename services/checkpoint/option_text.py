"""The options of the checkpoint commands, and the parsers of their texts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC
from breakglass.services.checkpoint.protocol.flows import GroupFlow
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import UsageError

if TYPE_CHECKING:
    from breakglass.services.checkpoint.kafka.topics import WantedCheckpoint


@dataclass(frozen=True, slots=True)
class TakeAsked:
    """What a checkpoint is to contain, and how it is copied."""

    topics: tuple[str, ...]
    groups: Mapping[str, GroupPolicy] = field(default_factory=dict)
    level: Level | None = None
    """None: the strongest level whose promise holds."""
    bytes_per_second: float | None = None
    drain_seconds: float = patience.DRAIN
    control_topic: str = CONTROL_TOPIC
    external: tuple[str, ...] = ()
    """Topics that are written from outside alone."""
    flows: tuple[GroupFlow, ...] = ()

    def wanted(self, level: Level) -> WantedCheckpoint:
        """What a checkpoint of *level* contains, the level that was asked for or was chosen."""
        from breakglass.services.checkpoint.kafka.topics import WantedCheckpoint

        # Flows are of the level ordered: a stronger level that was chosen does not use them.
        flows = self.flows if level is Level.ORDERED or self.level is not None else ()
        return WantedCheckpoint(
            level,
            self.topics,
            self.groups,
            self.control_topic,
            self.external,
            flows,
            self.drain_seconds,
        )


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
    topics = sorted({partition.topic for partition in found.take.partitions})
    words = ["--topics", ",".join(topics)]
    for name, policy in sorted(found.take.groups.items()):
        words += ["--group", f"{name}={policy}"]
    for topic in found.take.external:
        words += ["--external", topic]
    for flow in found.take.flows:
        words += ["--flow", str(flow)]
    return shlex.join([*words, "--level", found.take.level])


def new_names(
    found: StoredCheckpoint, renamed: Mapping[str, str], suffix: str
) -> Mapping[str, str]:
    """The new name of each renamed topic of *found*, for `CheckpointRestoreOptions`."""
    subjects = (partition.subject for partition in found.partitions)
    topics = {subject.topic for subject in subjects if subject is not None}
    behind = {topic: f"{topic}{suffix}" for topic in topics} if suffix else {}
    return {**behind, **renamed}


def policies(given: Iterable[str] | None) -> dict[str, GroupPolicy]:
    """The groups that the options name, each with its policy.

    Raises:
        UsageError: a group is not written NAME=POLICY, or is named twice.
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

    Raises:
        UsageError: a flow is not written GROUP:INPUTS>OUTPUTS, or an input of a group is in two.
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
