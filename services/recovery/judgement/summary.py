"""Sums up many assessments in two sentences, in the order of acts: what to stop, what helps most.

`Judged` is a conclusion without its evidence: lists, groups and sums are made of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from breakglass.services.model import Denied, Unknown
from breakglass.services.quick_values import maker, quickly_made
from breakglass.services.recovery.judgement.assessment import Action, Assessment, Verb, Verdict
from breakglass.services.recovery.judgement.inputs import named
from breakglass.services.recovery.judgement.succession import (
    IF_AS_IT_WAS,
    check_first,
    do_not_start,
    quorum_lost,
    rescue_before,
    without_quorum,
)
from breakglass.services.snapshot import Quorum


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
