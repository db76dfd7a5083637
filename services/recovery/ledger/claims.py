"""Reads from journals what an incident's elections agreed to, rescued and put back. Pure.

A journal may come from another operator or program: entries that cannot be read are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from breakglass.services.guard.journal_view import Details, EntryKind, JournalStep, JournalView
from breakglass.services.guard.steps import RESTORE_RECORDS
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.ledger.entries import ConsentGiven, CopiedSpan
from breakglass.services.recovery.ledger.holdings import Holdings, read_holdings
from breakglass.services.recovery.rescue.rescue import SAVED
from breakglass.services.recovery.rescue.rescue import STEP as RESCUE
from breakglass.services.recovery.timeline.ending import result_of

BACK = "restored"
"""The beginning of the result of a restore that was verified."""
FOLDER_PARTS = 4
"""``<cluster id>/<UTC time>/b<broker>/<topic>``, which stays the same if a rescue is moved."""
_BROKER = re.compile(r"b([0-9]{1,10})", re.ASCII)

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RescueClaim:
    """One replica's part of a rescue, with the journal's plan and result."""

    partition: TopicPartition
    broker: int
    wanted: Spans
    """Offsets that were to be copied."""
    path: Path | None
    """``.../b<broker>/<topic>/<partition>``; None if the journal names no path."""
    records: int | None
    """Number of written data records by the journal; None: the journal does not say."""
    whole: bool
    """The journal says that all of it was saved."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PutBackClaim:
    """A restore of one replica's rescued records into their partition."""

    partition: TopicPartition
    folder: tuple[str, ...]
    """The last parts of the address of the records, as in `folder_of`."""
    broker: int
    spans: Spans | Unknown
    proved: bool
    """The records were compared after the restore, or none was lost by it."""
    result: str
    journal: Path


def holdings_in(view: JournalView) -> dict[TopicPartition, Holdings | Unknown]:
    """The replicas' logs of each planned partition when its election was agreed to.

    A replica that could first be read when the journal was resumed is taken from that reading.
    """
    if view.plan is None:
        return {}
    found = {partition: read_holdings(item) for partition, item in view.plan.items.items()}
    for entry in view.entries:
        if entry.kind is EntryKind.NOTE and entry.seq > view.plan.seq:
            for partition, item in entry.items.items():
                later, before = read_holdings(item), found.get(partition)
                if isinstance(later, Holdings):
                    earlier = before if isinstance(before, Holdings) else later
                    found[partition] = earlier.with_later(later)
    return found


def consents_in(view: JournalView) -> tuple[ConsentGiven, ...]:
    """Who agreed to what, and when."""
    return tuple(
        ConsentGiven(
            entry.at_ms,
            str(entry.payload["who"]),
            str(entry.payload["phrase"]),
            entry.payload.get("implied") is True,
        )
        for entry in view.entries
        if entry.kind is EntryKind.CONSENT
    )


def approvals_in(view: JournalView) -> tuple[str, ...]:
    """Who had approved the plan."""
    named = () if view.plan is None else view.plan.payload.get("approved_by", ())
    return tuple(str(one) for one in named) if isinstance(named, list) else ()


def left_out_in(view: JournalView) -> tuple[tuple[TopicPartition, str], ...]:
    """Partitions that were asked for and not elected."""
    listed = () if view.plan is None else view.plan.payload.get("left", ())
    return tuple(_partitions(listed))


def not_sent_in(view: JournalView) -> dict[TopicPartition, Details]:
    """The result, reason and leader of partitions for which nothing was sent."""
    found: dict[TopicPartition, Details] = {}
    for entry in view.entries:
        if entry.kind is EntryKind.NOTE:
            for document in _listed(entry.payload.get("partitions")):
                partition = _named(document)
                if partition is not None:
                    found[partition] = document
    return found


def rescues_in(view: JournalView) -> dict[TopicPartition, tuple[RescueClaim, ...]]:
    """The planned rescues of each partition with their results, oldest first."""
    found: dict[TopicPartition, list[RescueClaim]] = {}
    for step in view.steps:
        if step.name == RESCUE:
            for partition in step.items:
                found.setdefault(partition, []).extend(_rescues(step, partition))
    return {partition: tuple(claims) for partition, claims in found.items()}


def _rescues(step: JournalStep, partition: TopicPartition) -> Iterator[RescueClaim]:
    outcome = result_of(step, partition)
    whole, reason = outcome.result == SAVED, str(outcome.details.get("reason") or "")
    places = {
        document.get("broker"): document for document in _listed(outcome.details.get("saved"))
    }
    wanted: dict[int, list[tuple[int, int]]] = {}
    for document in _listed(step.items[partition].get("rescue")):
        span = _span([document.get("start"), document.get("end")])
        if isinstance(document.get("broker"), int) and span is not None:
            wanted.setdefault(document["broker"], []).append(span)
    to = step.request.payload.get("to")
    for broker, spans in wanted.items():
        place = places.get(broker, {})
        path = place.get("path")
        if path is None and partition not in step.outcomes and to is not None:
            # The rescue was interrupted, but what it committed before is still there.
            path = PurePath(str(to), f"b{broker}", partition.topic, str(partition.partition))
        records = place.get("records")
        yield RescueClaim(
            partition,
            broker,
            tuple(spans),
            None if path is None else Path(str(path)),
            records if isinstance(records, int) else None,
            whole,
            reason or ("" if whole else "the journal does not say that it was saved"),
        )


def put_backs_in(views: Iterable[JournalView]) -> Iterator[PutBackClaim]:
    """Every restore of a tail from the folder of a broker, oldest first."""
    for view in views:
        for step in view.steps:
            folder = folder_of(PurePath(str(step.request.payload.get("source", ""))))
            broker = _BROKER.fullmatch(folder[-2]) if len(folder) == FOLDER_PARTS else None
            if step.name != RESTORE_RECORDS or broker is None:
                continue
            for partition, item in step.items.items():
                result = result_of(step, partition).result
                yield PutBackClaim(
                    partition,
                    folder,
                    int(broker[1]),
                    _restored(item),
                    result.startswith(BACK),
                    result,
                    view.path,
                )


def folder_of(path: PurePath) -> tuple[str, ...]:
    """The last parts of *path*, which identify a rescued topic's folder even if it was moved."""
    return path.parts[-FOLDER_PARTS:]


def _restored(item: Details) -> Spans | Unknown:
    """Which offsets were put back; journals of earlier releases only say how many."""
    listed = item.get("spans")
    if isinstance(listed, list):
        spans = [_span(one) for one in listed]
        return tuple(span for span in spans if span is not None)
    whole, records = _span([item.get("start"), item.get("end")]), item.get("records")
    if whole is not None and records == whole[1] - whole[0]:
        return (whole,)
    return Unknown(f"a restore put {records} records back, and its journal does not say which")


def doubtful_put_back(claim: PutBackClaim, within: Spans) -> tuple[CopiedSpan, ...]:
    """The spans that *claim* may have put back into the topic, without proof."""
    why = claim.spans.reason if isinstance(claim.spans, Unknown) else f"put back: {claim.result}"
    spans = within if isinstance(claim.spans, Unknown) else claim.spans
    return tuple(CopiedSpan(claim.broker, start, end, why) for start, end in spans)


def _span(pair: object) -> tuple[int, int] | None:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return None
    start, end = pair
    whole = all(isinstance(one, int) and not isinstance(one, bool) for one in pair)
    return (start, end) if whole and 0 <= start < end else None


def _partitions(listed: object) -> Iterator[tuple[TopicPartition, str]]:
    for document in _listed(listed):
        partition = _named(document)
        if partition is not None:
            yield partition, str(document.get("reason", ""))


def _named(item: Mapping[str, Any]) -> TopicPartition | None:
    topic, number = item.get("topic"), item.get("partition")
    return (
        TopicPartition(topic, number)
        if isinstance(topic, str) and isinstance(number, int)
        else None
    )


def _listed(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
