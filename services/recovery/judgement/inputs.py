"""One offline partition with everything that its judgement needs, worked out once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from breakglass.services.model import PartitionEvidence, ReplicaLog
from breakglass.services.recovery.judgement.circumstances import Circumstances
from breakglass.services.recovery.judgement.loss import Loss, UnreadRecords, loss_of, unread_bound
from breakglass.services.recovery.judgement.ranking import Ranking, holds_records, rank
from breakglass.services.recovery.judgement.succession import SuccessionForecast, forecast
from breakglass.services.recovery.judgement.unheard import abandoned, out_of_reach, unheard


@dataclass(frozen=True, slots=True)
class Case:
    """The evidence with everything that several judgements need."""

    evidence: PartitionEvidence
    circumstances: Circumstances
    ranking: Ranking
    winner: int | None
    """The broker that leads the ranking."""
    loss: Loss | None
    """The loss of choosing the winner."""
    unread: UnreadRecords
    forecast: SuccessionForecast
    abandoned: tuple[int, ...]
    """Brokers that are unread and not proved to hold no more than the winner."""
    unheard: tuple[ReplicaLog, ...]
    """Those of them that would tell their logs, were they started or reconnected."""
    out_of_reach: tuple[ReplicaLog, ...]
    """Those of them that starting does not bring, though nobody declared them gone."""

    @property
    def empty_over_unread(self) -> bool:
        """KIP-1275's pathological example: the winner has no records, and others are unread."""
        best = self.ranking.winner
        return best is not None and not holds_records(best.replica) and bool(self.abandoned)


def case_of(evidence: PartitionEvidence, circumstances: Circumstances) -> Case:
    """Work out what the judgement of *evidence* needs."""
    ranking = rank(evidence)
    best = ranking.winner
    winner = None if best is None else best.broker
    gone = circumstances.ruled_out
    left = abandoned(evidence, winner)
    return Case(
        evidence,
        circumstances,
        ranking,
        winner,
        None if winner is None else loss_of(evidence, winner),
        unread_bound(evidence),
        forecast(evidence, circumstances),
        left,
        unheard(evidence, winner, gone) if left and winner is not None else (),
        out_of_reach(evidence, winner, gone) if left and winner is not None else (),
    )


def named(brokers: Iterable[int]) -> str:
    """*brokers* as a sentence names them: ``b1, b2``."""
    return ", ".join([f"b{broker}" for broker in brokers])
