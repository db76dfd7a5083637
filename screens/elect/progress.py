"""What an election has told so far, folded into what the screen shows. Only its handlers use it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from breakglass.screens.elect.standing import ELECTING, WAITING, PartitionStanding, standing_of
from breakglass.services.guard.act import ActEvent, Ending, JournalOpened
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts.events import (
    BatchBegun,
    OutcomesReported,
    RescueEnded,
    RescueProgressed,
)
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult
from breakglass.services.recovery.rescue.results import RescuedPartition, RescueProgress


@dataclass(slots=True)
class ElectionProgress:
    """How far one election is."""

    total: int = 0
    """Partitions that an outcome is awaited of."""
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
        """All of *partitions* stand alike, and wait for what comes of them."""
        self.standings = dict.fromkeys(partitions, standing)
        self.total = len(self.standings)

    def take(self, event: ActEvent) -> None:
        """Fold *event* in."""
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
        """The run is over."""
        self.finished, self.result = True, ending.result

    def told(self, outcomes: Iterable[PartitionOutcome]) -> None:
        """What came of some partitions, or how far they have climbed since."""
        for one in outcomes:
            self.outcomes[one.partition] = one
            self.standings[one.partition] = standing_of(one)

    def count(self, *results: RecoveryResult) -> int:
        """How many partitions ended in one of *results*."""
        return sum(one.result in results for one in self.outcomes.values())

    @property
    def unknown(self) -> tuple[PartitionOutcome, ...]:
        """Those that may or may not have happened."""
        return tuple(one for one in self.outcomes.values() if one.result is RecoveryResult.UNKNOWN)

    @property
    def by_word(self) -> Counter[str]:
        """How many partitions stand where, by the word that is shown."""
        return Counter(self.standings[one].word for one in self.outcomes)
