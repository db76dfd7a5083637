"""Many assessments in two sentences: what to do first, and what must be stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.model import Unknown
from services.recovery.assessment import Assessment, Verb, Verdict
from services.recovery.case import named


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts over the offline partitions of a cluster."""

    total: int
    counts: Mapping[Verdict, int]
    """Partitions by verdict; verdicts that do not occur are left out."""
    headline: str
    """What helps most, in one sentence."""
    alarm: str
    """What must be stopped at once; empty if nothing."""


def summarize(assessments: Iterable[Assessment]) -> Summary:
    """Sum up *assessments*."""
    found = tuple(assessments)
    counts = Counter(one.verdict for one in found)
    by_urgency = {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}
    return Summary(len(found), by_urgency, _headline(found), _alarm(found))


def _headline(found: tuple[Assessment, ...]) -> str:
    if not found:
        return "No partition is offline."
    if any(one.action.verb is Verb.NO_QUORUM for one in found):
        return "No controller quorum: restore it first, no election can work without it."
    return _restoring(found) or _returning(found) or _electing(found) or _remaining(found)


def _restoring(found: tuple[Assessment, ...]) -> str:
    """The broker whose start brings back most."""
    waiting = [one for one in found if one.action.verb in (Verb.START, Verb.RECONNECT)]
    if not waiting:
        return ""
    gain = Counter(broker for one in waiting for broker in one.restorers)
    broker, whole = min(gain.items(), key=lambda item: (-item[1], item[0]))
    reconnect = all(one.action.verb is Verb.RECONNECT for one in waiting if broker in one.restorers)
    verb = "Reconnect" if reconnect else "Start"
    return f"{verb} b{broker}: {whole:,} of {len(found):,} come back whole."


def _returning(found: tuple[Assessment, ...]) -> str:
    returning = sum(one.action.verb is Verb.AWAIT for one in found)
    if not returning:
        return ""
    return f"Wait: the controller brings back {returning:,} of {len(found):,} by itself."


def _electing(found: tuple[Assessment, ...]) -> str:
    safe = sum(one.verdict is Verdict.SAFE for one in found)
    losing = [one for one in found if one.verdict is Verdict.LOSS]
    if not losing:
        return f"Elect: {safe:,} of {len(found):,} lose nothing that is readable." if safe else ""
    kept = f"{safe:,} of {len(found):,} lose nothing that is readable, " if safe else ""
    return f"Elect: {kept}{len(losing):,} lose {_price(losing)}."


def _price(losing: list[Assessment]) -> str:
    losses = [one.loss for one in losing if one.loss is not None]
    totals = [loss.total for loss in losses]
    records = sum(total for total in totals if isinstance(total, int))
    about = "~" if any(loss.approximate for loss in losses) else ""
    unknown = sum(isinstance(total, Unknown) for total in totals)
    if unknown == len(totals):
        return "an unknown number of records"
    more = f", {unknown:,} of them an unknown number" if unknown else ""
    return f"{about}{records:,} records{more}"


def _remaining(found: tuple[Assessment, ...]) -> str:
    forked = sum(one.verdict is Verdict.FORK for one in found)
    if forked:
        return f"Decide {forked:,} of {len(found):,}: committed records on both sides."
    stuck = [one for one in found if one.verdict is Verdict.STUCK]
    if not stuck:
        return "Stop the brokers of the alarm first, then read again."
    causes = ", ".join(sorted({one.action.verb.value for one in stuck}))
    return f"{len(stuck):,} of {len(found):,} are stuck: {causes}."


def _alarm(found: tuple[Assessment, ...]) -> str:
    bombs = [one for one in found if one.verdict is Verdict.BOMB]
    if not bombs:
        return ""
    brokers = sorted({one.action.broker for one in bombs if one.action.broker is not None})
    moments = [one.forecast.within_s for one in bombs if one.forecast.within_s is not None]
    within = f" within {min(moments)} s" if moments else ""
    return f"BOMB on {len(bombs):,}: stop {named(brokers)}{within}."
