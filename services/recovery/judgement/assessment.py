"""What is concluded about one offline partition: the values that screens and commands show."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.judgement.loss import Loss, UnreadRecords, loss_of
from breakglass.services.recovery.judgement.precedence import internal
from breakglass.services.recovery.judgement.ranking import Ranking
from breakglass.services.recovery.judgement.succession import SuccessionForecast


class Verdict(StrEnum):
    """The state of an offline partition in one word, most urgent first."""

    STUCK = "STUCK"
    """No election can work before something else is put right."""
    BOMB = "BOMB"
    """The controller is about to elect a replica that destroys what others hold (R2)."""
    WAIT = "WAIT"
    """A replica that is ISR, ELR or sole last known leader would bring it back whole, or one that
    nobody has heard may hold more than the best of the others."""
    FORK = "FORK"
    """Committed records on both sides: only the operator can decide (R9)."""
    LOSS = "LOSS"
    """Electing the best replica loses records, or may."""
    SAFE = "SAFE"
    """Every replica was heard, is proved to hold no more, or is declared gone; and electing the
    best loses nothing of what the others hold."""


class Verb(StrEnum):
    """What to do; for STUCK what stands in the way."""

    START = "start"
    RECONNECT = "reconnect"
    """The broker runs but is fenced: its way to the controllers is broken."""
    AWAIT = "await"
    """The controller elects this broker by itself, and rightly; or it may still answer."""
    ELECT = "elect"
    STOP = "stop"
    DECIDE = "decide"
    NO_QUORUM = "no quorum"
    REASSIGNMENT = "reassignment"
    UNREGISTERED = "unregistered"
    NO_ANSWER = "no answer"
    INELIGIBLE = "none eligible"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do about a partition."""

    verb: Verb
    broker: int | None = None

    def __str__(self) -> str:
        if self.broker is None:
            return self.verb.value
        # An election may come at any moment, and nobody can say when at the latest.
        now = " NOW" if self.verb is Verb.STOP else ""
        return f"{self.verb.value} b{self.broker}{now}"


@dataclass(frozen=True, slots=True)
class Assessment:
    """The judgement of one offline partition."""

    evidence: PartitionEvidence
    verdict: Verdict
    action: Action
    designee: int | None
    """Whom an election now should choose; None where none should be held: nobody can be elected,
    something else must be put right first, or only the operator can decide (FORK)."""
    ranking: Ranking
    loss: Loss | None
    """The loss of electing the designee."""
    unread: UnreadRecords
    forecast: SuccessionForecast
    hazards: tuple[int, ...]
    """Brokers that a reorder would elect instead of the designee (R1)."""
    restorers: tuple[int, ...]
    """Brokers that would each bring the partition back whole, once started."""
    unheard: tuple[int, ...]
    """Other brokers that may each hold more than the best replica, once started."""
    gone: tuple[int, ...]
    """Brokers of the assignment that were declared gone, or ruled out."""
    heard: tuple[int, int]
    """How many replicas have answered, of how many."""
    barriers: tuple[str, ...]
    """Why it must not be elected without an operator's decision; empty if nothing bars it."""
    reasons: tuple[str, ...]
    """Sentences for the operator, the verdict's own reason first."""

    @property
    def partition(self) -> TopicPartition:
        return self.evidence.partition

    @property
    def best(self) -> int | None:
        """Who leads the ranking, be an election advisable or not."""
        winner = self.ranking.winner
        return None if winner is None else winner.broker

    @property
    def barred(self) -> str:
        """The barriers as an operator reads them: none that another reason has said already."""
        return "; ".join([one for one in self.barriers if one in self.reasons])

    @property
    def automatable(self) -> bool:
        """Whether the designee may be elected on a consent given for many partitions at once."""
        return self.designee is not None and not self.barriers

    @property
    def in_bulk(self) -> bool:
        """Whether its consent may be shared: internal topics are recovered one by one (R17)."""
        return not internal(self.partition)

    def loss_of(self, broker: int) -> Loss:
        """The loss of electing *broker* instead; Unknown if its log could not be read."""
        if self.loss is not None and self.loss.candidate == broker:
            return self.loss
        return loss_of(self.evidence, broker)
