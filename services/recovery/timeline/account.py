"""The account that one journal gives: who, when, what, and how it stands. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from breakglass.services.guard.journal_view import EntryKind, JournalView
from breakglass.services.recovery.execution.preferred import STEP as PREFERRED
from breakglass.services.recovery.execution.record import SUCCEEDED, UNDONE
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.group_reset import STEP as COMMIT
from breakglass.services.recovery.settings.changes import owed
from breakglass.services.recovery.timeline.ending import PartitionEnding, endings_of
from breakglass.services.recovery.timeline.stake import TotalPrice, agreed_stake


class ExecutionState(StrEnum):
    """How an execution stands."""

    RUNNING = "running"
    """Somebody writes its journal right now."""
    INTERRUPTED = "interrupted"
    """It neither runs nor came to its end."""
    ENDED = "ended"
    """By itself; its result says how."""


@dataclass(frozen=True, slots=True)
class Brief:
    """A journal in a line: what is kept of the many that are not open."""

    path: Path
    cluster_id: str
    who: str
    resumed_by: tuple[str, ...]
    opened_at_ms: int
    last_at_ms: int
    """When its last line was written."""
    what: str
    """``recovery of 1,876 partitions``."""
    counts: Mapping[str, int]
    """Partitions by how it ended for them, the most first."""
    unknown: int
    """Partitions with a step that may or may not have happened."""
    stake: TotalPrice
    digest: str
    ended: str | None
    """``succeeded``, ``partly failed``, ``undone``; None while it has not come to its end."""
    planned: bool
    """It elects by a plan, so that it can be resumed."""
    state: ExecutionState
    owes: int = 0
    """Topic settings that it has still to put back."""

    @property
    def name(self) -> str:
        """The file's name without suffix: the moment it was opened."""
        return self.path.stem

    @property
    def result(self) -> str:
        """How it ended; without an end ``running`` or ``interrupted``."""
        return self.ended or str(self.state)

    @property
    def resumable(self) -> bool:
        """Whether a resume would find elections to finish or undo, or settings to put back."""
        done = self.ended in (SUCCEEDED, UNDONE)
        left = self.owes > 0 or (self.planned and not done)
        return left and self.state is not ExecutionState.RUNNING

    @property
    def checkable(self) -> bool:
        """Whether unknown outcomes can be looked up again."""
        return self.unknown > 0 and self.state is not ExecutionState.RUNNING


@dataclass(frozen=True)
class Account:
    """A journal with everything that it says."""

    view: JournalView
    state: ExecutionState

    @cached_property
    def brief(self) -> Brief:
        """The same in a line."""
        view = self.view
        resumed = (entry for entry in view.entries if entry.kind is EntryKind.RESUMED)
        return Brief(
            view.path,
            view.cluster_id,
            view.who,
            tuple(str(entry.payload["who"]) for entry in resumed),
            view.opened_at_ms,
            view.entries[-1].at_ms,
            self._what(),
            dict(Counter(ending.result for ending in self.endings).most_common()),
            len({partition for step in view.unsettled for partition in step.unsettled}),
            agreed_stake(self.endings),
            "" if view.plan is None else str(view.plan.payload["digest"]),
            view.result,
            view.plan is not None,
            self.state,
            len(owed(view)),
        )

    @cached_property
    def endings(self) -> tuple[PartitionEnding, ...]:
        """How it ended for each partition."""
        return endings_of(self.view)

    @cached_property
    def topics(self) -> tuple[TopicAccount, ...]:
        """The same by topic, in the order of their names."""
        held: dict[str, list[PartitionEnding]] = {}
        for ending in self.endings:
            held.setdefault(ending.partition.topic, []).append(ending)
        return tuple(TopicAccount(topic, tuple(held[topic])) for topic in sorted(held))

    def _what(self) -> str:
        """What it set out to do."""
        number = len(self.endings)
        steps = {step.name for step in self.view.steps}
        if self.view.plan is not None:
            doing = "recovery"
        elif COMMIT in steps:
            doing = "group offsets"
        elif PREFERRED in steps:
            doing = "preferred election"
        else:
            return "nothing was begun" if not steps else ", ".join(sorted(steps))
        return f"{doing} of {number:,} partition{'s' * (number != 1)}"


@dataclass(frozen=True)
class TopicAccount:
    """What was done to one topic."""

    topic: str
    endings: tuple[PartitionEnding, ...]
    """At least one."""

    @cached_property
    def counts(self) -> Mapping[str, int]:
        return dict(Counter(ending.result for ending in self.endings).most_common())

    @property
    def stake(self) -> TotalPrice:
        return agreed_stake(self.endings)

    @cached_property
    def leaders(self) -> Mapping[int, int]:
        """Partitions by the broker that was elected for them, the most first."""
        elected = str(RecoveryResult.ELECTED)
        led = (ending.leader for ending in self.endings if ending.result == elected)
        return dict(Counter(leader for leader in led if leader is not None).most_common())

    @property
    def rescued(self) -> int:
        """Records that were saved."""
        return sum(saved.records for ending in self.endings for saved in ending.rescued)


def words_of(counts: Mapping[str, int]) -> str:
    """``1,874 elected, 2 unknown``."""
    return ", ".join(f"{number:,} {word}" for word, number in counts.items())
