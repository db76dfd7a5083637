"""The conclusion about one offline partition, and about many: what screens and commands show.

It has the order in which partitions are recovered, those first on which others depend (R17), and
whether a replica may be chosen to lead, with what the choice asks of the operator.

`Judged` is a conclusion without its evidence: lists, groups and sums are made of it. Many are
summed up in two sentences, in the order of acts: what to stop, what helps most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from breakglass.services.model import (
    INTERNAL_TOPICS,
    Denied,
    PartitionEvidence,
    Reassignment,
    TopicPartition,
    Unknown,
)
from breakglass.services.quick_values import maker, quickly_made
from breakglass.services.recovery.judgement.inputs import abandoned, named, passed_over
from breakglass.services.recovery.judgement.loss import (
    CutByReturn,
    Loss,
    UnreadRecords,
    loss_of,
    unread_bound,
)
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
    IF_AS_IT_WAS,
    SuccessionForecast,
    check_first,
    do_not_start,
    elected_by_order,
    hazards,
    quorum_lost,
    rescue_before,
    unregistered_text,
    without_quorum,
)
from breakglass.services.snapshot import Quorum


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


@quickly_made
@dataclass(frozen=True, slots=True)
class Judged:
    """An assessment in figures. Partitions that fared alike have equal figures."""

    verdict: Verdict
    action: Action
    designee: int | None
    epoch: int | Unknown | None
    """Last written epoch of the designee; None without designee, or for a log without records."""
    loss: int | Unknown | None
    """Records lost by electing the designee; None without designee."""
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
    cut_from: tuple[int, ...]
    """Brokers whose logs a restorer cuts when it leads, or may cut."""
    unheard: tuple[int, ...]
    """Other brokers that may each hold more than the best replica, once started."""
    remembered: tuple[int, ...]
    """Unread brokers that reported their log earlier, while the partition was as it is now."""
    successor: int | None
    """Whom the controller elects by itself; None: nobody."""
    automatable: bool
    """The designee may be elected on a consent given for many partitions at once."""

    @classmethod
    def of(cls, assessment: Assessment) -> Judged:
        """The conclusions of *assessment*."""
        loss, unread = assessment.loss, assessment.unread
        designee = assessment.designee
        best = None if designee is None else assessment.evidence.replica(designee)
        return _judged(
            assessment.verdict,
            assessment.action,
            assessment.designee,
            None if best is None else best.last_written_epoch,
            None if loss is None else loss.total,
            loss is not None and loss.approximate,
            unread.replicas,
            unread.at_least,
            assessment.heard,
            assessment.restorers,
            () if assessment.cut_by_return is None else assessment.cut_by_return.holders,
            assessment.unheard,
            _remembered(assessment),
            assessment.forecast.broker,
            assessment.automatable,
        )


_judged = maker(Judged)


def _remembered(assessment: Assessment) -> tuple[int, ...]:
    if not assessment.unread.replicas:
        return ()
    replicas = assessment.evidence.replicas
    return tuple([replica.broker for replica in replicas if replica.last_heard is not None])


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts over the offline partitions of a cluster."""

    total: int
    counts: Mapping[Verdict, int]
    """Partitions by verdict; verdicts that do not occur are left out."""
    headline: str
    """What helps most, in one sentence; after an alarm it begins with ``Then``."""
    alarm: str
    """What must be stopped at once, before the headline; empty if nothing."""
    rescue_first: int | None
    """The broker before whose return the headline has records saved; None: before no one's."""


LedWithout = Callable[[int], int]
"""In how many partitions that have a leader a broker is assigned and out of sync."""


def summarize(
    assessments: Iterable[Assessment],
    quorum: Quorum | Unknown | None = None,
    led_without: LedWithout = lambda _: 0,
) -> Summary:
    """Sum up *assessments*, made while *quorum* was what brokers reported of the controllers."""
    return sum_up((Judged.of(assessment) for assessment in assessments), quorum, led_without)


def sum_up(
    judged: Iterable[Judged],
    quorum: Quorum | Unknown | None = None,
    led_without: LedWithout = lambda _: 0,
) -> Summary:
    """The same of conclusions alone."""
    found = tuple(judged)
    counts = Counter(conclusion.verdict for conclusion in found)
    by_urgency = {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}
    alarm = _alarm(found)
    headline, rescue_first = _headline(found, quorum, led_without)
    if alarm:
        # headline as what comes after an alarm: `Then start b3: ...`.
        headline = f"Then {headline[0].lower()}{headline[1:]}"
    return Summary(len(found), by_urgency, headline, alarm, rescue_first)


def _headline(
    found: tuple[Judged, ...], quorum: Quorum | Unknown | None, led_without: LedWithout
) -> tuple[str, int | None]:
    """The headline, and the broker before whose return it has records saved."""
    if not found:
        return none_offline(quorum), None
    if any(conclusion.action.verb is Verb.NO_QUORUM for conclusion in found):
        return f"{without_quorum('No controller leads')}.", None
    return _restoring(found, led_without) or (
        _returning(found) or _unheard(found) or _electing(found) or _remaining(found),
        None,
    )


def none_offline(quorum: Quorum | Unknown | None) -> str:
    """That no partition is offline, and why the metadata that says so may be stale.

    Brokers that are cut off from the controllers keep what these said last.
    """
    lost = quorum_lost(quorum) if quorum is not None else ""
    doubt = without_quorum(lost) if lost else ""
    if isinstance(quorum, Unknown) and not lost and not isinstance(quorum, Denied):
        doubt = f"the quorum is unknown: {quorum.reason}"
    so_far = f" as far as this broker knows; {doubt}" if doubt else ""
    return f"No partition is offline{so_far}."


def _restoring(found: tuple[Judged, ...], led_without: LedWithout) -> tuple[str, int | None] | None:
    """The broker whose start brings back most; that broker if records are saved before."""
    verbs = (Verb.START, Verb.SAVE, Verb.CHECK, Verb.RECONNECT)
    waiting = [
        conclusion
        for conclusion in found
        if conclusion.restorers and conclusion.action.verb in verbs
    ]
    if not waiting:
        return None
    gain = Counter(broker for conclusion in waiting for broker in conclusion.restorers)
    broker, whole = min(gain.items(), key=lambda item: (-item[1], item[0]))
    of_broker = [conclusion for conclusion in waiting if broker in conclusion.restorers]
    reconnect = all(conclusion.action.verb is Verb.RECONNECT for conclusion in of_broker)
    verb = "Reconnect" if reconnect else "Start"
    unread = any(broker in conclusion.unread for conclusion in of_broker)
    condition = f" {IF_AS_IT_WAS}" if unread else ""
    # A start is of the whole broker: where others lead by now, it follows them (R27).
    led = led_without(broker)
    follows = (
        f"; in {led:,} led partition{'s' * (led != 1)} it cuts what the leader does not have"
        if led
        else ""
    )
    whole_of = f"{whole:,} of {len(found):,} {_verb(whole, 'come')} back whole{condition}"
    back = f"b{broker}: {whole_of}{follows}."
    # What another restorer than that of the action cuts was not judged.
    cut = any(conclusion.cut_from or conclusion.action.broker != broker for conclusion in of_broker)
    before = {one.action.verb for one in found if one.action.broker == broker} & _BEFORE.keys()
    if before:
        saved = f"run {rescue_before(broker)}, then " if cut else ""
        first = _first(before.pop(), broker)
        return f"{first} After that {saved}start {back}", broker if cut else None
    if cut:
        return f"Run {rescue_before(broker)}, then {verb.lower()} {back}", broker
    return f"{verb} {back}", None


_BEFORE = {
    Verb.SAVE: (do_not_start, "an election passed it over"),
    Verb.CHECK: (check_first, "an election may have passed it over"),
}
"""What is said first of a broker that is not to be started as it is, and why."""


def _first(verb: Verb, broker: int) -> str:
    act, why = _BEFORE[verb]
    words = act(broker)
    return f"{words[0].upper()}{words[1:]}, for {why}."


def _returning(found: tuple[Judged, ...]) -> str:
    returning = sum(
        conclusion.action.verb is Verb.AWAIT and bool(conclusion.restorers) for conclusion in found
    )
    if not returning:
        return ""
    return f"Wait: the controller brings back {returning:,} of {len(found):,} by itself."


def _unheard(found: tuple[Judged, ...]) -> str:
    """The broker that may have more of most partitions, and brings none back by itself."""
    waiting = [
        conclusion
        for conclusion in found
        if conclusion.verdict is Verdict.WAIT and conclusion.unheard
    ]
    if not waiting:
        return ""
    silent = Counter(broker for conclusion in waiting for broker in conclusion.unheard)
    broker, number = min(silent.items(), key=lambda item: (-item[1], item[0]))
    verbs = {conclusion.action.verb for conclusion in waiting if conclusion.action.broker == broker}
    partitions = f"{number:,} partition{'' if number == 1 else 's'}"
    for verb in _BEFORE.keys() & verbs:
        return f"{_first(verb, broker)} It may hold more of {partitions}."
    act = _HEARING[verbs.pop()] if len(verbs) == 1 else "Start"
    return f"{act} b{broker}: it may hold more of {partitions}."


_HEARING = {Verb.START: "Start", Verb.RECONNECT: "Reconnect", Verb.AWAIT: "Wait for"}


def _electing(found: tuple[Judged, ...]) -> str:
    safe = sum(conclusion.verdict is Verdict.SAFE for conclusion in found)
    losing = [conclusion for conclusion in found if conclusion.verdict is Verdict.LOSS]
    kept = f"{safe:,} of {len(found):,} {_verb(safe, 'lose')} nothing that is readable"
    if not losing:
        return f"Elect: {kept}." if safe else ""
    before = f"{kept}, " if safe else ""
    return f"Elect: {before}{len(losing):,} {_verb(len(losing), 'lose')} {_price(losing)}."


def _price(losing: list[Judged]) -> str:
    totals = [conclusion.loss for conclusion in losing if conclusion.loss is not None]
    records = sum(total for total in totals if isinstance(total, int))
    about = "~" if any(conclusion.approximate for conclusion in losing) else ""
    unknown = sum(isinstance(total, Unknown) for total in totals)
    if unknown == len(totals):
        return "an unknown number of records"
    more = f", {unknown:,} of them an unknown number" if unknown else ""
    return f"{about}{records:,} record{'' if records == 1 else 's'}{more}"


def _verb(number: int, plural: str) -> str:
    return f"{plural}s" if number == 1 else plural


def _remaining(found: tuple[Judged, ...]) -> str:
    forked = sum(conclusion.verdict is Verdict.FORK for conclusion in found)
    if forked:
        return f"Decide {forked:,} of {len(found):,}: committed records on both sides."
    stuck = [conclusion for conclusion in found if conclusion.verdict is Verdict.STUCK]
    if not stuck:
        return "Read again."
    causes = ", ".join(sorted({conclusion.action.verb.value for conclusion in stuck}))
    are = "is" if len(stuck) == 1 else "are"
    return f"{len(stuck):,} of {len(found):,} {are} stuck: {causes}."


def _alarm(found: tuple[Judged, ...]) -> str:
    """``FIRST stop b4 NOW: BOMB on 3.``: an election may come at any moment."""
    bombs = [conclusion for conclusion in found if conclusion.verdict is Verdict.BOMB]
    if not bombs:
        return ""
    brokers = sorted(
        {conclusion.action.broker for conclusion in bombs if conclusion.action.broker is not None}
    )
    return f"FIRST stop {named(brokers)} NOW: BOMB on {len(bombs):,}."
