"""Elections that cost records, in sentences: grouped as the partitions fared. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from breakglass.services.incident.elections_seen import ElectionSeen, LogFate, ReplicaAhead
from breakglass.services.incident.groups import span_of, span_text
from breakglass.services.incident.observations import Observation
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.inputs import named
from breakglass.services.words.moments import moment_of

MOST_TOPICS = 3
"""Brokers named in one sentence; the others are counted."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """An observation as a line of a list."""

    sentence: str
    seen_at_ms: int
    who: str
    acknowledged_by: str


def alarm_lines(seen: Iterable[ElectionSeen]) -> tuple[str, ...]:
    """A sentence for each group that fared alike; brokers that were elected EMPTY first."""
    return tuple(map(_sentence, _groups(seen)))


def sightings(observations: Iterable[Observation]) -> tuple[Sighting, ...]:
    """The same of *observations*, with who saw it and who acknowledged it; the newest first."""
    alike: dict[tuple[str, str], list[ElectionSeen]] = {}
    for observation in observations:
        alike.setdefault((observation.who, observation.acknowledged_by), []).append(
            observation.seen
        )
    found = [
        Sighting(_sentence(together), _first_seen(together), who, noted)
        for (who, noted), seen in alike.items()
        for together in _groups(seen)
    ]
    return tuple(sorted(found, key=lambda election: election.seen_at_ms, reverse=True))


def _groups(seen: Iterable[ElectionSeen]) -> list[list[ElectionSeen]]:
    """Elections that fared alike; a partition that fared so again is named once in its group."""
    groups: dict[tuple[object, ...], dict[tuple[str, TopicPartition], ElectionSeen]] = {}
    for one in sorted(
        seen, key=lambda one: (not one.empty, one.leader, one.partition, one.seen_at_ms)
    ):
        groups.setdefault(_alike(one), {}).setdefault((one.topic_id, one.partition), one)
    return [list(group.values()) for group in groups.values()]


def _first_seen(together: Sequence[ElectionSeen]) -> int:
    return min(election.seen_at_ms for election in together)


def clock_text(milliseconds: int) -> str:
    """``23:02:51Z``."""
    moment = moment_of(milliseconds)
    return moment if isinstance(moment, str) else f"{moment:%H:%M:%S}Z"


def _alike(election: ElectionSeen) -> tuple[object, ...]:
    kept = tuple([(holder.broker, holder.kept) for holder in election.holders])
    if election.empty:
        return True, election.leader, kept
    figures = (
        election.log_end,
        election.best,
        election.best_end,
        election.missing,
        election.approximate,
    )
    return False, election.leader, kept, election.topic_id, figures


def _sentence(together: Sequence[ElectionSeen]) -> str:
    first = together[0]
    seen_at = clock_text(_first_seen(together))
    if first.empty:
        topics: dict[str, list[ElectionSeen]] = {}
        for election in together:
            topics.setdefault(election.partition.topic, []).append(election)
        shown = [_topic(elections) for elections in list(topics.values())[:MOST_TOPICS]]
        rest = sum(len(elections) for elections in list(topics.values())[MOST_TOPICS:])
        more = f", and {rest:,} partition{'s' * (rest != 1)} more" if rest else ""
        emptied = ", ".join(shown) + more
        what = f"b{first.leader} was elected EMPTY, seen at {seen_at}: {emptied}"
        return "; ".join([what, *_holders(first.holders, "a log")])
    what = (
        f"{_names(together)} {'was' if len(together) == 1 else 'were'} elected by somebody else, "
        f"seen at {seen_at}: b{first.leader} leads with {first.log_end:,} records, b{first.best} "
        f"had {first.best_end:,}"
    )
    return "; ".join([what, *_missing(first, len(together))])


def _topic(elections: Sequence[ElectionSeen]) -> str:
    ends = [election.best_end for election in elections]
    span = f"{min(ends):,}" if min(ends) == max(ends) else f"{min(ends):,}..{max(ends):,}"
    # A log without records need not end at 0.
    to = {election.log_end for election in elections}
    return f"{_names(elections)} went from {span} to {to.pop() if len(to) == 1 else 0:,}"


def _names(elections: Sequence[ElectionSeen]) -> str:
    """``carts3-0..2``, ``orders-3``, ``orders-* (4)``."""
    numbers = span_text(span_of([election.partition.partition for election in elections]))
    many = f" ({len(elections):,})" if numbers == "*" else ""
    return f"{elections[0].partition.topic}-{numbers}{many}"


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
    """What to do about brokers that still have the records, and which brokers lost them."""
    running, down, cut = (
        [holder.broker for holder in holders if holder.kept is kept]
        for kept in (LogFate.RUNNING, LogFate.DOWN, LogFate.TRUNCATED)
    )
    if running:
        yield f"stop the brokers that still hold {what}: {named(running)}"
    if down:
        they = "it holds" if len(down) == 1 else "they hold"
        where = "its log folder is" if len(down) == 1 else "their log folders are"
        yield f"do not start {named(down)} before {where} copied: {they} {what}"
    if cut:
        # ``b1``, ``b1 and b2``, ``b1, b2 and b3``.
        listed = named(cut) if len(cut) == 1 else f"{named(cut[:-1])} and b{cut[-1]}"
        yield f"{listed} {'has' if len(cut) == 1 else 'have'} been truncated"
