"""How far each partition of an election is: a glyph, a word, a reason; never colour alone.

The events of an election are folded in here, by the handlers of its screen alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from breakglass.services.guard.act import ActEvent, Ending, JournalOpened
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts.add_replicas import reach_text
from breakglass.services.recovery.acts.events import (
    BatchBegun,
    OutcomesReported,
    RescueEnded,
    RescueProgressed,
)
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult, Rung
from breakglass.services.recovery.rescue.results import RescuedPartition, RescueProgress
from breakglass.services.words.figures import count
from breakglass.themes.roles import Role

RUNGS = len(Rung)
CLIMBED, AHEAD = "■", "·"
ORDER_LEFT = "; the order of its assignment was not put back: resume the journal"


@dataclass(frozen=True, slots=True)
class PartitionStanding:
    """What is shown of one partition."""

    glyph: str
    word: str
    role: Role | None = None
    reason: str = ""
    """The whole sentence, for the line below the table."""
    weight: int = 0
    """What needs the operator comes first when all is over: the greater, the earlier."""

    @property
    def text(self) -> str:
        return f"{self.glyph} {self.word}".strip()


ASKED = PartitionStanding("", "")
WAITING = PartitionStanding(AHEAD * RUNGS, "waits for its turn", Role.MUTED)
LOOKED_AT = PartitionStanding("»", "read again", Role.RUNNING)
ELECTING = PartitionStanding("»", "electing", Role.RUNNING)
CONFIRMED = PartitionStanding(
    "", "to be confirmed", None, "its designee leads: it is confirmed, and its order put back"
)
"""Of a partition that a resume finds led as it should be."""


def alone(why: str) -> PartitionStanding:
    """A partition that needs a phrase of its own."""
    return PartitionStanding("!", "own phrase", Role.LOST, f"needs its own consent: {why}")


def spared(instead: str, why_alone: str = "") -> PartitionStanding:
    """A partition that needs no election if something else is done."""
    own = f"; to elect it {alone(why_alone).reason}" if why_alone else ""
    return PartitionStanding(
        "", f"or {instead}", Role.WAITING, f"needs no election if you {instead}{own}"
    )


def left_out(reason: str) -> PartitionStanding:
    """A partition that is not elected."""
    return PartitionStanding("-", "left out", Role.MUTED, reason)


def changed(reason: str) -> PartitionStanding:
    """A partition whose evidence is not what was agreed to any more."""
    return PartitionStanding("!", f"changed: {reason}", Role.FAILED, reason, 1)


def standing_of(outcome: PartitionOutcome) -> PartitionStanding:
    """What came of one partition."""
    if outcome.result is RecoveryResult.ELECTED:
        return _elected(outcome)
    glyph, role, weight = _UNELECTED[outcome.result]
    word = str(outcome.result)
    if outcome.result is RecoveryResult.ELECTED_ANOTHER:
        word = f"b{outcome.leader} was elected"
    elif outcome.result is RecoveryResult.REORDERED:
        word = "reordered only"
    reason = outcome.reason
    if outcome.order_restored is False and outcome.result is not RecoveryResult.REORDERED:
        reason = f"{reason}{ORDER_LEFT}"
    return PartitionStanding(glyph, word, role, reason, weight)


def _elected(outcome: PartitionOutcome) -> PartitionStanding:
    if outcome.rung is None:
        word = "leader lost again" if outcome.leader is None else f"b{outcome.leader} leads by now"
        return PartitionStanding("!", word, Role.FAILED, outcome.reason, 4)
    glyph = CLIMBED * outcome.rung + AHEAD * (RUNGS - outcome.rung)
    role = Role.VERIFIED if outcome.rung >= Rung.WRITABLE else Role.RUNNING
    led = f"b{outcome.leader} leads in epoch {count(outcome.leader_epoch)}"
    reason = f"{led}; {reach_text(outcome) or MEANING[outcome.rung]}"
    if outcome.order_restored is False:
        reason += ORDER_LEFT
    return PartitionStanding(glyph, str(outcome.rung), role, reason)


MEANING = {
    Rung.ELECTED: "the broker itself has not confirmed it yet",
    Rung.SERVING: "it answers as leader; its high watermark lags behind",
    Rung.READABLE: "consumers read to the end; too few replicas are in sync for acks=all",
    Rung.WRITABLE: "acks=all is accepted; no other replica is in sync yet",
    Rung.REDUNDANT: "another replica is in sync",
}

_UNELECTED = {
    RecoveryResult.ALREADY_ONLINE: ("✓", Role.VERIFIED, 0),
    RecoveryResult.UNDONE: ("✓", Role.VERIFIED, 0),
    RecoveryResult.NOT_ATTEMPTED: ("-", Role.MUTED, 1),
    RecoveryResult.REFUSED: ("!", Role.FAILED, 2),
    RecoveryResult.FAILED: ("x", Role.FAILED, 3),
    RecoveryResult.REORDERED: ("!", Role.FAILED, 4),
    RecoveryResult.UNKNOWN: ("?", Role.UNKNOWN, 5),
    RecoveryResult.ELECTED_ANOTHER: ("x", Role.FAILED, 6),
}


@dataclass(slots=True)
class ElectionProgress:
    """How far one election is."""

    total: int = 0
    """Partitions whose outcome is awaited."""
    standings: dict[TopicPartition, PartitionStanding] = field(default_factory=dict)
    outcomes: dict[TopicPartition, PartitionOutcome] = field(default_factory=dict)
    journal: Path | None = None
    rescuing: RescueProgress | None = None
    """None: no rescue runs."""
    rescued: list[RescuedPartition] = field(default_factory=list)
    finished: bool = False
    result: str | None = None

    def begin(
        self, partitions: Iterable[TopicPartition], standing: PartitionStanding = WAITING
    ) -> None:
        self.standings = dict.fromkeys(partitions, standing)
        self.total = len(self.standings)

    def take(self, event: ActEvent) -> None:
        if isinstance(event, JournalOpened):
            self.journal = event.path
        elif isinstance(event, RescueProgressed):
            self.rescuing = event.progress
        elif isinstance(event, RescueEnded):
            self.rescuing = None
            self.rescued += event.results
        elif isinstance(event, BatchBegun):
            self.standings.update(dict.fromkeys(event.partitions, ELECTING))
        elif isinstance(event, OutcomesReported):
            self.told(event.outcomes)

    def end(self, ending: Ending) -> None:
        self.finished, self.result = True, ending.result

    def told(self, outcomes: Iterable[PartitionOutcome]) -> None:
        """What came of some partitions, or how far they have climbed since."""
        for outcome in outcomes:
            self.outcomes[outcome.partition] = outcome
            self.standings[outcome.partition] = standing_of(outcome)

    def count(self, *results: RecoveryResult) -> int:
        return sum(outcome.result in results for outcome in self.outcomes.values())

    @property
    def unknown(self) -> tuple[PartitionOutcome, ...]:
        """Those that may or may not have happened."""
        return tuple(
            outcome
            for outcome in self.outcomes.values()
            if outcome.result is RecoveryResult.UNKNOWN
        )

    @property
    def by_word(self) -> Counter[str]:
        """How many partitions stand where, by the word that is shown."""
        return Counter(self.standings[outcome].word for outcome in self.outcomes)
