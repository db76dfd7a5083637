"""Elections that cost records, in sentences: grouped as the partitions fared. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from breakglass.services.incident.elections_seen import ElectionSeen, LogFate, ReplicaAhead
from breakglass.services.incident.groups import numbers_text
from breakglass.services.incident.observations import Observation
from breakglass.services.recovery.judgement.inputs import named
from breakglass.services.words.moments import moment_of

MOST_TOPICS = 3
"""Named in one sentence; of the others the number is told."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What was seen, in a line of a list."""

    sentence: str
    seen_at_ms: int
    who: str
    acknowledged_by: str


def alarm_lines(seen: Iterable[ElectionSeen]) -> tuple[str, ...]:
    """A sentence for each group that fared alike; brokers that were elected EMPTY first."""
    return tuple(map(_sentence, _groups(seen)))


def sightings(observations: Iterable[Observation]) -> tuple[Sighting, ...]:
    """The same of *observations*, with who saw it and who took note; the newest first."""
    alike: dict[tuple[str, str], list[ElectionSeen]] = {}
    for one in observations:
        alike.setdefault((one.who, one.acknowledged_by), []).append(one.seen)
    found = [
        Sighting(_sentence(together), _first_seen(together), who, noted)
        for (who, noted), seen in alike.items()
        for together in _groups(seen)
    ]
    return tuple(sorted(found, key=lambda one: one.seen_at_ms, reverse=True))


def _groups(seen: Iterable[ElectionSeen]) -> list[list[ElectionSeen]]:
    groups: dict[tuple[object, ...], list[ElectionSeen]] = {}
    for one in sorted(seen, key=lambda one: (not one.empty, one.leader, one.partition)):
        groups.setdefault(_alike(one), []).append(one)
    return list(groups.values())


def _first_seen(together: Sequence[ElectionSeen]) -> int:
    return min(one.seen_at_ms for one in together)


def clock_text(milliseconds: int) -> str:
    """``23:02:51Z``."""
    moment = moment_of(milliseconds)
    return moment if isinstance(moment, str) else f"{moment:%H:%M:%S}Z"


def _alike(one: ElectionSeen) -> tuple[object, ...]:
    kept = tuple([(holder.broker, holder.kept) for holder in one.holders])
    if one.empty:
        return True, one.leader, kept
    figures = one.log_end, one.best, one.best_end, one.missing, one.approximate
    return False, one.leader, kept, one.partition.topic, figures


def _sentence(together: Sequence[ElectionSeen]) -> str:
    first = together[0]
    seen_at = clock_text(_first_seen(together))
    if first.empty:
        what = f"b{first.leader} was elected EMPTY, seen at {seen_at}: {_emptied(together)}"
        return "; ".join([what, *_holders(first.holders, "a log")])
    what = (
        f"{_names(together)} {'was' if len(together) == 1 else 'were'} elected by somebody else, "
        f"seen at {seen_at}: b{first.leader} leads with {first.log_end:,} records, b{first.best} "
        f"had {first.best_end:,}"
    )
    return "; ".join([what, *_missing(first, len(together))])


def _emptied(together: Sequence[ElectionSeen]) -> str:
    topics: dict[str, list[ElectionSeen]] = {}
    for one in together:
        topics.setdefault(one.partition.topic, []).append(one)
    shown = [_topic(ones) for ones in list(topics.values())[:MOST_TOPICS]]
    rest = sum(len(ones) for ones in list(topics.values())[MOST_TOPICS:])
    more = f", and {rest:,} partition{'s' * (rest != 1)} more" if rest else ""
    return ", ".join(shown) + more


def _topic(ones: Sequence[ElectionSeen]) -> str:
    ends = [one.best_end for one in ones]
    span = f"{min(ends):,}" if min(ends) == max(ends) else f"{min(ends):,}..{max(ends):,}"
    # A log without records need not end at 0.
    to = {one.log_end for one in ones}
    return f"{_names(ones)} went from {span} to {to.pop() if len(to) == 1 else 0:,}"


def _names(ones: Sequence[ElectionSeen]) -> str:
    """``carts3-0..2``, ``orders-3``, ``orders-* (4)``."""
    numbers = numbers_text([one.partition.partition for one in ones])
    many = f" ({len(ones):,})" if numbers == "*" else ""
    return f"{ones[0].partition.topic}-{numbers}{many}"


def _missing(first: ElectionSeen, partitions: int) -> Iterator[str]:
    each = " each" if partitions > 1 else ""
    about = "~" if first.approximate else ""
    if first.missing is None:
        records = f"an unknown number of records{each}"
    else:
        records = f"{about}{first.missing:,} record{'s' * (first.missing != 1)}{each}"
    if not first.open:
        yield f"{records} {_are(first.missing)} on no replica that was read"
    else:
        yield f"{records} {_are(first.missing)} only on {named(first.open)}, not truncated yet"
    yield from _holders(first.holders, "them")


def _are(number: int | None) -> str:
    return "is" if number == 1 else "are"


def _holders(holders: Sequence[ReplicaAhead], what: str) -> Iterator[str]:
    """What to do about those that still have it, and who has it no more."""
    running, down, cut = (
        [one.broker for one in holders if one.kept is kept]
        for kept in (LogFate.RUNNING, LogFate.DOWN, LogFate.TRUNCATED)
    )
    if running:
        yield f"stop the brokers that still hold {what}: {named(running)}"
    if down:
        they = "it holds" if len(down) == 1 else "they hold"
        where = "its log folder is" if len(down) == 1 else "their log folders are"
        yield f"do not start {named(down)} before {where} copied: {they} {what}"
    if cut:
        yield f"{_listed(cut)} {'has' if len(cut) == 1 else 'have'} been truncated"


def _listed(brokers: Sequence[int]) -> str:
    """``b1``, ``b1 and b2``, ``b1, b2 and b3``."""
    if len(brokers) == 1:
        return named(brokers)
    return f"{named(brokers[:-1])} and b{brokers[-1]}"
