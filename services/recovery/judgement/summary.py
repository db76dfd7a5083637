"""Many assessments in two sentences, in the order of acts: what to stop, then what helps most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from breakglass.services.model import Denied, Quorum, Silent, Unknown
from breakglass.services.recovery.judgement.assessment import Assessment, Verb, Verdict
from breakglass.services.recovery.judgement.circumstances import quorum_lost
from breakglass.services.recovery.judgement.conclusion import Judged
from breakglass.services.recovery.judgement.inputs import named


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


def summarize(assessments: Iterable[Assessment], quorum: Quorum | Unknown | None = None) -> Summary:
    """Sum up *assessments*, made while *quorum* was what brokers told of the controllers."""
    return sum_up((Judged.of(one) for one in assessments), quorum)


def sum_up(judged: Iterable[Judged], quorum: Quorum | Unknown | None = None) -> Summary:
    """The same of conclusions alone."""
    found = tuple(judged)
    counts = Counter(one.verdict for one in found)
    by_urgency = {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}
    alarm = _alarm(found)
    headline = _headline(found, quorum)
    return Summary(len(found), by_urgency, _then(headline) if alarm else headline, alarm)


def _headline(found: tuple[Judged, ...], quorum: Quorum | Unknown | None) -> str:
    if not found:
        doubt = _doubt(quorum)
        so_far = f" as far as this broker knows; {doubt}" if doubt else ""
        return f"No partition is offline{so_far}."
    if any(one.action.verb is Verb.NO_QUORUM for one in found):
        return "No controller quorum: restore it first, no election can work without it."
    return (
        _restoring(found)
        or _returning(found)
        or _unheard(found)
        or _electing(found)
        or _remaining(found)
    )


def _doubt(quorum: Quorum | Unknown | None) -> str:
    """Why the brokers' metadata may be stale: cut off from the controllers they keep the last."""
    if isinstance(quorum, Silent):
        return "the controllers do not answer it"
    if isinstance(quorum, Unknown) and not isinstance(quorum, Denied):
        return f"the quorum is unknown: {quorum.reason}"
    return quorum_lost(quorum) if quorum is not None else ""


def _restoring(found: tuple[Judged, ...]) -> str:
    """The broker whose start brings back most."""
    verbs = (Verb.START, Verb.RECONNECT)
    waiting = [one for one in found if one.restorers and one.action.verb in verbs]
    if not waiting:
        return ""
    gain = Counter(broker for one in waiting for broker in one.restorers)
    broker, whole = min(gain.items(), key=lambda item: (-item[1], item[0]))
    reconnect = all(one.action.verb is Verb.RECONNECT for one in waiting if broker in one.restorers)
    verb = "Reconnect" if reconnect else "Start"
    return f"{verb} b{broker}: {whole:,} of {len(found):,} {_verb(whole, 'come')} back whole."


def _returning(found: tuple[Judged, ...]) -> str:
    returning = sum(one.action.verb is Verb.AWAIT and bool(one.restorers) for one in found)
    if not returning:
        return ""
    return f"Wait: the controller brings back {returning:,} of {len(found):,} by itself."


def _unheard(found: tuple[Judged, ...]) -> str:
    """The broker that may hold more of most partitions, and brings none back by itself."""
    waiting = [one for one in found if one.verdict is Verdict.WAIT and one.unheard]
    if not waiting:
        return ""
    held = Counter(broker for one in waiting for broker in one.unheard)
    broker, number = min(held.items(), key=lambda item: (-item[1], item[0]))
    verbs = {one.action.verb for one in waiting if one.action.broker == broker}
    act = _HEARING[verbs.pop()] if len(verbs) == 1 else "Start"
    partitions = f"{number:,} partition{'' if number == 1 else 's'}"
    return f"{act} b{broker}: it may hold more of {partitions}."


_HEARING = {Verb.START: "Start", Verb.RECONNECT: "Reconnect", Verb.AWAIT: "Wait for"}


def _electing(found: tuple[Judged, ...]) -> str:
    safe = sum(one.verdict is Verdict.SAFE for one in found)
    losing = [one for one in found if one.verdict is Verdict.LOSS]
    kept = f"{safe:,} of {len(found):,} {_verb(safe, 'lose')} nothing that is readable"
    if not losing:
        return f"Elect: {kept}." if safe else ""
    before = f"{kept}, " if safe else ""
    return f"Elect: {before}{len(losing):,} {_verb(len(losing), 'lose')} {_price(losing)}."


def _price(losing: list[Judged]) -> str:
    totals = [one.loss for one in losing if one.loss is not None]
    records = sum(total for total in totals if isinstance(total, int))
    about = "~" if any(one.approximate for one in losing) else ""
    unknown = sum(isinstance(total, Unknown) for total in totals)
    if unknown == len(totals):
        return "an unknown number of records"
    more = f", {unknown:,} of them an unknown number" if unknown else ""
    return f"{about}{records:,} record{'' if records == 1 else 's'}{more}"


def _verb(number: int, plural: str) -> str:
    """*plural* as *number* partitions want it."""
    return f"{plural}s" if number == 1 else plural


def _remaining(found: tuple[Judged, ...]) -> str:
    forked = sum(one.verdict is Verdict.FORK for one in found)
    if forked:
        return f"Decide {forked:,} of {len(found):,}: committed records on both sides."
    stuck = [one for one in found if one.verdict is Verdict.STUCK]
    if not stuck:
        return "Read again."
    causes = ", ".join(sorted({one.action.verb.value for one in stuck}))
    are = "is" if len(stuck) == 1 else "are"
    return f"{len(stuck):,} of {len(found):,} {are} stuck: {causes}."


def _alarm(found: tuple[Judged, ...]) -> str:
    """``FIRST stop b4 NOW: BOMB on 3.``: an election may come at any moment."""
    bombs = [one for one in found if one.verdict is Verdict.BOMB]
    if not bombs:
        return ""
    brokers = sorted({one.action.broker for one in bombs if one.action.broker is not None})
    return f"FIRST stop {named(brokers)} NOW: BOMB on {len(bombs):,}."


def _then(headline: str) -> str:
    """*headline* as what comes after an alarm: ``Then start b3: ...``."""
    return f"Then {headline[0].lower()}{headline[1:]}"
