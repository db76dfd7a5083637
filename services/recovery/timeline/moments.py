"""What happened when, line by line, from the entries of a journal. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from breakglass.services.guard.journal_view import (
    UNKNOWN,
    EntryKind,
    Items,
    JournalEntry,
    JournalView,
)
from breakglass.services.recovery.plan.digest import spoken

SHOWN_REQUESTS = 30
"""A journal with more requests is summed up by kind, so that its timeline can be pasted."""
SHOWN_TOPICS = 3


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of a timeline."""

    at_ms: int
    says: str
    """As journals have it, hostile or not; what shows it makes it inert."""


def moments_of(view: JournalView) -> tuple[Moment, ...]:
    """The moments of *view*, in order; many requests of a kind become one line each."""
    requests = [request for request in view.entries if request.kind is EntryKind.REQUEST]
    if len(requests) <= SHOWN_REQUESTS:
        return tuple(_told(view, view.entries))
    steps = (EntryKind.REQUEST, EntryKind.OUTCOME)
    rest = _told(view, [entry for entry in view.entries if entry.kind not in steps])
    return tuple(sorted([*rest, *_by_kind(view, requests)], key=lambda moment: moment.at_ms))


def _told(view: JournalView, entries: Sequence[JournalEntry]) -> Iterator[Moment]:
    names = {step.request.seq: step.name for step in view.steps}
    for entry in entries:
        yield Moment(entry.at_ms, _says(entry, names.get(entry.payload.get("request", 0), "")))
    if view.torn:
        yield Moment(entries[-1].at_ms, "the last line was cut off: what it announced was not sent")


def _says(entry: JournalEntry, step: str) -> str:
    said = entry.payload
    match entry.kind:
        case EntryKind.OPENED:
            return f"begun by {said['who']}"
        case EntryKind.RESUMED:
            return f"taken up again by {said['who']}"
        case EntryKind.PLAN:
            digest = f", digest {digest_text(str(said['digest']))}" if said["digest"] else ""
            return f"plan of {_sized(entry.items)}{digest}"
        case EntryKind.CONSENT:
            return f"{said['who']} agreed: {said['phrase']}"
        case EntryKind.REQUEST:
            group = f" of group {said['group']}" if "group" in said else ""
            return f"{said['step']}{group}: {_sized(entry.items)}"
        case EntryKind.OUTCOME:
            return f"{step}: {_results(entry.items)}"
        case EntryKind.NOTE:
            return f"note: {said['text']}"
        case EntryKind.CLOSED:
            return f"ended: {said['result']}"


def _by_kind(view: JournalView, requests: Sequence[JournalEntry]) -> Iterator[Moment]:
    """One line for each kind of step, where its first request stood."""
    for name in dict.fromkeys(str(request.payload["step"]) for request in requests):
        steps = [step for step in view.steps if step.name == name]
        told: Counter[str] = Counter()
        for step in steps:
            told.update(outcome.result for outcome in step.outcomes.values())
            told[UNKNOWN] += len(step.items) - len(step.outcomes)
        results = ", ".join(f"{number:,} {word}" for word, number in told.most_common() if number)
        yield Moment(
            steps[0].request.at_ms, f"{name}, from here on in {len(steps):,} requests: {results}"
        )


def _results(items: Items) -> str:
    told = Counter(str(item.get("result", UNKNOWN)) for item in items.values())
    return ", ".join(f"{number:,} {word}" for word, number in told.most_common())


def _sized(items: Items) -> str:
    """``orders-3``; ``1,876 partitions of orders, ledger and 4 more topics``."""
    if len(items) == 1:
        return str(next(iter(items)))
    topics = list(dict.fromkeys(item.topic for item in items))
    named = ", ".join(topics[:SHOWN_TOPICS])
    more = len(topics) - SHOWN_TOPICS
    also = f" and {more:,} more topic{'s' * (more != 1)}" if more > 0 else ""
    return f"{len(items):,} partitions of {named}{also}" if topics else "no partition"


def digest_text(digest: str) -> str:
    """A plan's digest as it is read out loud, for the person who approved it."""
    try:
        return spoken(digest)
    except ValueError:
        return digest


def partition_numbers(numbers: Iterable[int], most: int = 12) -> str:
    """``0-99, 101, 103``; at most *most* ranges, and how many partitions are left out."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    named = [str(low) if low == high else f"{low}-{high}" for low, high in ranges[:most]]
    left = sum(high - low + 1 for low, high in ranges[most:])
    return ", ".join(named) + (f" and {left:,} more" if left else "")
