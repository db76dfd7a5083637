"""The conclusions of a judgement without its evidence: what lists, groups and sums are made of."""

from __future__ import annotations

from dataclasses import dataclass

from breakglass.services.model import Unknown
from breakglass.services.recovery.judgement.assessment import Action, Assessment, Verdict


@dataclass(frozen=True, slots=True)
class Judged:
    """One assessment in figures. Partitions that fared alike have equal ones."""

    verdict: Verdict
    action: Action
    designee: int | None
    epoch: int | Unknown | None
    """Last written epoch of the designee; None without one, or for a log without records."""
    loss: int | Unknown | None
    """Records lost by electing the designee; None without one."""
    approximate: bool
    """The loss is counted in offsets of a topic that is, or may be, compacted."""
    unread: tuple[int, ...]
    """Assigned brokers whose log could not be read."""
    unread_at_least: int | Unknown
    """Records known to be in none but unread logs: a lower bound."""
    heard: tuple[int, int]
    """How many replicas have answered, of how many."""
    restorers: tuple[int, ...]
    """Brokers that would each bring the partition back whole, once started."""
    unheard: tuple[int, ...]
    """Other brokers that may each hold more than the best replica, once started."""
    remembered: tuple[int, ...]
    """Unread brokers that told their log earlier, while the partition was as it is now."""
    successor: int | None
    """Whom the controller elects by itself; None: nobody."""
    automatable: bool
    """The designee may be elected on a consent given for many partitions at once."""

    @classmethod
    def of(cls, assessment: Assessment) -> Judged:
        """The conclusions of *assessment*."""
        loss, unread = assessment.loss, assessment.unread
        return cls(
            assessment.verdict,
            assessment.action,
            assessment.designee,
            _epoch(assessment),
            None if loss is None else loss.total,
            loss is not None and loss.approximate,
            unread.replicas,
            unread.at_least,
            assessment.heard,
            assessment.restorers,
            assessment.unheard,
            _remembered(assessment),
            assessment.forecast.broker,
            assessment.automatable,
        )


def _remembered(assessment: Assessment) -> tuple[int, ...]:
    replicas = assessment.evidence.replicas
    return tuple([one.broker for one in replicas if one.last_heard is not None])


def _epoch(assessment: Assessment) -> int | Unknown | None:
    designee = assessment.designee
    best = None if designee is None else assessment.evidence.replica(designee)
    return None if best is None else best.last_written_epoch
