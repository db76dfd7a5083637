"""Explains a checkpoint, before it is taken or as it is stored: who writes, which promise holds.

The same explanation is what `checkpoint explain` prints, what `checkpoint take` without a level
chooses by, and what the Checkpoints screen shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services import patience
from breakglass.services.checkpoint.option_text import TakeAsked
from breakglass.services.checkpoint.promises import (
    Declared,
    PromiseOutlook,
    proposed_flows,
    strongest_promise,
)
from breakglass.services.checkpoint.protocol.evidence import (
    CheckpointEvidence,
    GroupEvidence,
    TopicEvidence,
)
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import Refused

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the logs show of a checkpoint's topics and groups, and what follows from that."""

    evidence: CheckpointEvidence
    declared: Declared

    @property
    def outlook(self) -> PromiseOutlook:
        """Which promise holds, and what is missing for the others."""
        return strongest_promise(self.evidence.topics, self.evidence.groups, self.declared)

    @property
    def flows(self) -> tuple[str, ...]:
        """The flows that were declared, else a proposal, to be completed and confirmed."""
        return tuple(map(str, self.declared.flows)) or proposed_flows(self.evidence)

    def require_level(self) -> Level:
        """The strongest level whose promise holds.

        Raises:
            Refused: no promise holds; the message says what is missing for the first level.
        """
        outlook = self.outlook
        if outlook.strongest is None:
            first = outlook.levels[0]
            raise Refused(
                f"no promise holds. For {first.level}: {first.missing[0]}. `breakglass checkpoint "
                "explain` has all that is missing; --level vector takes it without a promise"
            )
        return outlook.strongest

    def require(self, level: Level) -> None:
        """Return if the promise of *level* holds. Raises: Refused."""
        missing = self.outlook.missing(level)
        if missing:
            raise Refused(
                f"the promise of {level} does not hold, so nothing was written: {missing[0]}. "
                "`breakglass checkpoint explain` has all that is missing"
            )


def explain(client: ReadClient, asked: TakeAsked, *, retention_held: bool = False) -> Explanation:
    """The explanation of a checkpoint that would be taken now.

    Raises:
        UsageError: a topic does not exist.
        ClusterError, NotAuthorized, Unreachable: something cannot be read.
    """
    from breakglass.services.checkpoint.kafka.topic_evidence import read_evidence
    from breakglass.services.kafka.wire.deadline import Deadline

    deadline = Deadline.after(patience.JOB)
    evidence = read_evidence(client, asked.topics, asked.control_topic, deadline)
    external = frozenset(asked.external)
    return Explanation(
        evidence, Declared(asked.groups, external, asked.flows, retention_held=retention_held)
    )


def explained(found: StoredCheckpoint) -> Explanation | None:
    """The explanation of a stored checkpoint; None if its content was never decided."""
    if found.take is None or found.cut is None or found.cut.evidence is None:
        return None
    take = found.take
    # It is copied: compaction has removed nothing that it needs.
    declared = Declared(take.groups, frozenset(take.external), take.flows, retention_held=True)
    return Explanation(found.cut.evidence, declared)


def topic_words(topic: TopicEvidence, declared: Declared) -> str:
    """``orders: participant, idempotent (external)``; ``?`` where no record shows a writer."""
    writers = ", ".join(topic.writers) or "?"
    external = " (external)" if topic.topic in declared.external else ""
    return f"{topic.topic}: {writers}{external}"


def group_words(group: GroupEvidence) -> str:
    """``billing commits: transactional``."""
    return f"{group.name} commits: {group.commits}"


def level_words(explanation: Explanation, promised: Level | None = None) -> Iterator[str]:
    """A line for each level: whether its promise holds, else what is missing.

    With *promised*, of a checkpoint that was taken, only what is missing for better levels.
    """
    for outlook in explanation.outlook.levels:
        if promised is not None and outlook.level == promised:
            return
        if outlook.holds and promised is None:
            yield f"{outlook.level}: possible"
        for missing in outlook.missing:
            yield f"{outlook.level}: {missing}"
