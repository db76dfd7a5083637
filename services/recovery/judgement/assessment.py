"""The conclusion about one offline partition: the values that screens and commands show.

It has the order in which partitions are recovered, those first on which others depend (R17), and
whether a replica may be chosen to lead, with what the choice asks of the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from breakglass.services.model import (
    INTERNAL_TOPICS,
    PartitionEvidence,
    Reassignment,
    TopicPartition,
    Unknown,
)
from breakglass.services.quick_values import quickly_made
from breakglass.services.recovery.judgement.cut_by_return import CutByReturn
from breakglass.services.recovery.judgement.inputs import abandoned, named, passed_over
from breakglass.services.recovery.judgement.loss import Loss, UnreadRecords, loss_of, unread_bound
from breakglass.services.recovery.judgement.ranking import (
    BROKERS_KNOWN,
    Ranking,
    ReplicaStanding,
    corruption,
    eligibility,
    holds_records,
    rank,
)
from breakglass.services.recovery.judgement.succession import (
    SuccessionForecast,
    elected_by_order,
    hazards,
    unregistered_text,
)


class Verdict(StrEnum):
    """The state of an offline partition in one word, most urgent first."""

    __hash__ = str.__hash__

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
    """The act; for STUCK the obstacle."""

    __hash__ = str.__hash__

    START = "start"
    SAVE = "save"
    """Save its log folders, then start the broker: an election passed it over (R27)."""
    CHECK = "check"
    """Read its disk, then start the broker: an election may have passed it over (R46)."""
    RECONNECT = "reconnect"
    """The broker runs but is fenced: its way to the controllers is broken."""
    AWAIT = "await"
    """The controller elects this broker itself, without loss; or the broker may still answer."""
    ELECT = "elect"
    STOP = "stop"
    DECIDE = "decide"
    NO_QUORUM = "no quorum"
    REASSIGNMENT = "reassignment"
    UNREGISTERED = "unregistered"
    NO_ANSWER = "no answer"
    INELIGIBLE = "none eligible"


@quickly_made
@dataclass(frozen=True, slots=True)
class Action:
    """An act for the operator, for a partition."""

    verb: Verb
    broker: int | None = None

    def __str__(self) -> str:
        if self.broker is None:
            return self.verb.value
        if self.verb in (Verb.SAVE, Verb.CHECK):
            return f"{self.verb.value} b{self.broker} first"
        # An election may come at any moment; its latest moment is unknown.
        now = " NOW" if self.verb is Verb.STOP else ""
        return f"{self.verb.value} b{self.broker}{now}"


@lru_cache(len(Verb) * BROKERS_KNOWN)
def action_of(verb: Verb, broker: int | None = None) -> Action:
    """The action, one value for all partitions."""
    return Action(verb, broker)


@quickly_made
@dataclass(frozen=True, slots=True)
class Assessment:
    """The judgement of one offline partition."""

    evidence: PartitionEvidence
    verdict: Verdict
    action: Action
    designee: int | None
    """Whom an election now should choose; None where no election should run: nobody can be elected,
    something else must be put right first, or only the operator can decide (FORK)."""
    loss: Loss | None
    """The loss of electing the designee."""
    unread: UnreadRecords
    forecast: SuccessionForecast
    hazards: tuple[int, ...]
    """Brokers that a reorder would elect instead of the designee (R1)."""
    restorers: tuple[int, ...]
    """Brokers that would each bring the partition back whole, once started, if their disks have all
    that they had."""
    cut_by_return: CutByReturn | None
    """What the restorer to be started, or waited for, cuts from others when it leads."""
    unheard: tuple[int, ...]
    """Other brokers that may each hold more than the best replica, once started."""
    gone: tuple[int, ...]
    """Brokers of the assignment that were declared gone, or ruled out."""
    heard: tuple[int, int]
    """How many replicas have answered, of how many."""
    barriers: tuple[str, ...]
    """Why electing the designee needs an operator's decision; empty if it needs none."""
    tell: Callable[[Assessment], tuple[str, ...]] = field(repr=False, compare=False)
    """Puts `reasons` into words: of 200,000 partitions those of few are ever read."""

    @property
    def partition(self) -> TopicPartition:
        return self.evidence.partition

    @property
    def ranking(self) -> Ranking:
        """The order in which the replicas should lead; worked out each time."""
        return rank(self.evidence)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Sentences for the operator, the verdict's own reason first; worded each time."""
        return self.tell(self)

    @property
    def best(self) -> int | None:
        """The first of the ranking, whether an election is advisable or not."""
        winner = self.ranking.winner
        return None if winner is None else winner.broker

    @property
    def unproved(self) -> tuple[int, ...]:
        """The restorers whose disk was not read: what they bring back is not proved (R26)."""
        unread = self.unread.replicas
        return tuple([broker for broker in self.restorers if broker in unread]) if unread else ()

    @property
    def barred(self) -> str:
        """The barriers as an operator reads them, without those that a reason has said already."""
        reasons = self.reasons if self.barriers else ()
        return "; ".join([barrier for barrier in self.barriers if barrier in reasons])

    @property
    def automatable(self) -> bool:
        """Whether the designee may be elected on a consent given for many partitions at once."""
        return self.designee is not None and not self.barriers

    def loss_of(self, broker: int) -> Loss:
        """The loss of electing *broker* instead; Unknown if its log could not be read."""
        if self.loss is not None and self.loss.candidate == broker:
            return self.loss
        return loss_of(self.evidence, broker)


_PLACE = {topic: place for place, topic in enumerate(INTERNAL_TOPICS)}


def internal(partition: TopicPartition) -> bool:
    """Whether *partition* belongs to an internal topic: recovered first, never in bulk."""
    return partition.topic in _PLACE


def recovery_order(partition: TopicPartition) -> tuple[int, str, int]:
    """Sort key: internal topics in the order they depend on each other, then by name."""
    return _PLACE.get(partition.topic, len(_PLACE)), partition.topic, partition.partition


INTERNAL_ALONE = "it is an internal topic"
"""Why its consent is not shared (R17)."""


def refusal(evidence: PartitionEvidence, broker: int) -> str:
    """Why *broker* cannot be chosen at all (R1, R12, R16); empty if it can be."""
    found = eligibility(evidence, broker)
    if found.standing is ReplicaStanding.BARRED:
        return found.reason
    if not evidence.state.offline:
        return f"b{evidence.state.leader} leads it already"
    if evidence.unregistered and elected_by_order(evidence) != broker:
        return unregistered_text(evidence)
    if isinstance(evidence.state.reassignment, Reassignment):
        return "a reassignment is under way: finish or cancel it first"
    others = hazards(evidence, broker)
    if others:
        return (
            f"the controller may elect {named(others)} instead: stop {named(others)}, wait until "
            "fenced, read again"
        )
    return ""


def choices(evidence: PartitionEvidence, ranking: Ranking | None = None) -> tuple[int, ...]:
    """Brokers that a rule may choose, best first: read, and with nothing against them."""
    ranked = ranking or rank(evidence)
    return tuple([broker for broker in ranked.recommendable if not refusal(evidence, broker)])


def own_consent(
    evidence: PartitionEvidence,
    broker: int,
    gone: Collection[int],
    loss: Loss | None = None,
    ranking: Ranking | None = None,
) -> str:
    """Why electing *broker* needs a consent for this partition alone; empty if it does not.

    Internal topics (R17), a loss or ranking that is unknown (R8, R16), a corrupt batch, committed
    records on another replica (R9), a broker that is passed over though nobody declared it *gone*,
    and unread logs of which nothing at all is known, or beside a log without records (R11).
    The *loss* of electing it and the *ranking* save working them out again.
    """
    if internal(evidence.partition):
        return INTERNAL_ALONE
    standing = eligibility(evidence, broker)
    if standing.standing is not ReplicaStanding.ELIGIBLE:
        return standing.reason
    replica = evidence.replica(broker)
    if replica is not None and replica.corrupt_at is not None:
        return corruption(replica)
    loss = loss or loss_of(evidence, broker)
    if loss.committed_elsewhere is True:
        return "committed records of other replicas are lost"
    if isinstance(loss.total, Unknown):
        return f"the loss is unknown: {loss.total.reason}"
    if isinstance(loss.committed_elsewhere, Unknown):
        return f"unknown if committed records are lost: {loss.committed_elsewhere.reason}"
    unproven = (ranking or rank(evidence)).unproven
    if unproven:
        return unproven
    return _over_unread(evidence, broker, gone)


def _over_unread(evidence: PartitionEvidence, broker: int, gone: Collection[int]) -> str:
    """Why the unread logs that are given up need a look of their own."""
    left = abandoned(evidence, broker)
    replica = evidence.replica(broker)
    if left and replica is not None and not holds_records(replica):
        return f"b{broker} is EMPTY and not every replica could be read"
    waits = passed_over(evidence, broker, gone)
    if waits or not left:
        return waits
    bound = unread_bound(evidence).at_least
    if isinstance(bound, Unknown):
        return f"nothing is known of what unread {named(left)} holds: {bound.reason}"
    return ""
