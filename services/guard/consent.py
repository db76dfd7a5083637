"""The words an operator types before anything is destroyed: what is meant, and its price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from breakglass.services.errors import ConsentMissing
from breakglass.services.model import INTERNAL_TOPICS, TopicPartition, Unknown
from breakglass.services.quick_values import quickly_made


class ConsentPhrase(NamedTuple):
    """A phrase that the operator has to type."""

    phrase: str
    why: str = ""
    """Why the phrase stands alone; empty for the bulk."""
    partition: TopicPartition | None = None
    """The first of the partitions that stand alone."""


class _Agreed(Protocol):
    @property
    def phrase(self) -> str: ...


@quickly_made
@dataclass(frozen=True, slots=True)
class Price:
    """What an election of some partitions loses."""

    records: int | Unknown
    """Readable records, counted; records of unread replicas are never part of the price (R11)."""
    approximate: bool = False
    """One of the topics is compacted, so that offsets are not records."""

    def __str__(self) -> str:
        if isinstance(self.records, Unknown):
            return "unknown"
        return f"{'~' if self.approximate else ''}{self.records:,}"


def total_price(prices: Sequence[Price]) -> Price:
    """The price of all *prices* together; unknown as soon as one of them is."""
    records = 0
    for price in prices:
        if isinstance(price.records, Unknown):
            return price
        records += price.records
    return Price(records, any(price.approximate for price in prices))


@quickly_made
@dataclass(frozen=True, slots=True)
class Stake:
    """A partition to be changed, and the price of the change."""

    partition: TopicPartition
    price: Price
    why_alone: str = ""
    """Why the partition needs its own phrase (internal topic, loss unknown); empty for the bulk."""
    abandons: tuple[int, ...] = ()
    """Brokers whose unread logs are given up, in the order of their ids; they have no price."""


@dataclass(frozen=True, slots=True)
class ConsentGroup:
    """Partitions that one phrase agrees to: all are of one kind, and abandon the same brokers."""

    partitions: tuple[TopicPartition, ...]
    price: Price
    why_alone: str = ""
    """Why the partitions need a phrase of their own; empty for the bulk."""
    abandons: tuple[int, ...] = ()
    """Brokers whose unread logs are given up, of each of the partitions."""
    names_first: bool = False
    """Another group has as many partitions at the same price: the phrase names the first one."""

    @property
    def phrase(self) -> str:
        """What has to be typed."""
        if self.names_first and len(self.partitions) > 1:
            named = f"{self.partitions[0]} and {len(self.partitions) - 1:,} more"
            return _phrase(named, self.price, self.abandons)
        return consent_phrase(self.partitions, self.price, self.abandons)

    @property
    def asked(self) -> ConsentPhrase:
        """The phrase, with the reason for which it stands alone."""
        alone = self.partitions[0] if self.why_alone else None
        return ConsentPhrase(self.phrase, self.why_alone, alone)


def consent_groups(stakes: Iterable[Stake]) -> tuple[ConsentGroup, ...]:
    """One group for each kind of *stakes* that stands alone, in their order, then the rest in bulk.

    A kind has one reason, abandons the same brokers and, of internal topics, is of one topic. Of
    the rest, those that abandon the same brokers are one group; those that abandon nobody come
    first. No two phrases are the same.
    """
    alone: dict[tuple[str, str, tuple[int, ...]], list[Stake]] = {}
    bulk: dict[tuple[int, ...], list[Stake]] = {}
    for stake in stakes:
        if stake.why_alone:
            topic = stake.partition.topic if stake.partition.topic in INTERNAL_TOPICS else ""
            alone.setdefault((topic, stake.why_alone, stake.abandons), []).append(stake)
        else:
            bulk.setdefault(stake.abandons, []).append(stake)
    groups = [_together(held, *kind[1:]) for kind, held in alone.items()]
    groups += [_together(bulk[brokers], "", brokers) for brokers in sorted(bulk)]
    often = Counter(group.phrase for group in groups)
    return tuple(
        replace(group, names_first=True) if often[group.phrase] > 1 else group for group in groups
    )


def implied_groups(groups: Iterable[ConsentGroup]) -> tuple[ConsentGroup, ...]:
    """*groups* merged by reason, for a consent that is given without typing a phrase."""
    alike: dict[tuple[str, tuple[int, ...]], list[ConsentGroup]] = {}
    for group in groups:
        alike.setdefault((group.why_alone, group.abandons), []).append(group)
    return tuple(
        ConsentGroup(
            tuple([partition for group in held for partition in group.partitions]),
            total_price([group.price for group in held]),
            why,
            abandons,
        )
        for (why, abandons), held in alike.items()
    )


def _together(stakes: Sequence[Stake], why: str, abandons: tuple[int, ...]) -> ConsentGroup:
    price = total_price([stake.price for stake in stakes])
    return ConsentGroup(tuple([stake.partition for stake in stakes]), price, why, abandons)


def consent_phrase(
    targets: Sequence[TopicPartition], price: Price, abandons: Sequence[int] = ()
) -> str:
    """What has to be typed: ``orders-3 lose 50``; in bulk ``1,874 partitions lose 0``.

    Those of an internal topic are ``__consumer_offsets: 50 lose 0``. Brokers whose unread logs
    are given up are named: ``orders-3 lose 0 and abandon b2, b3``.
    Raises ValueError for no target: there is nothing to agree to.
    """
    if not targets:
        raise ValueError("consent needs a target")
    topics = {target.topic for target in targets}
    if len(targets) == 1:
        named = str(targets[0])
    elif len(topics) == 1 and topics.issubset(INTERNAL_TOPICS):
        named = f"{targets[0].topic}: {len(targets):,}"
    else:
        named = f"{len(targets):,} partitions"
    return _phrase(named, price, abandons)


def _phrase(named: str, price: Price, abandons: Sequence[int]) -> str:
    given_up = f" and abandon {', '.join(f'b{broker}' for broker in abandons)}" if abandons else ""
    return f"{named} lose {price}{given_up}"


def require_consent(given: str | None, phrase: str) -> None:
    """Return if *given* is *phrase*, character for character.

    Raises:
        ConsentMissing: nothing was given, or something else; the error carries the phrase.
    """
    if given == phrase:
        return
    if given is None:
        raise ConsentMissing(f"This needs your consent: type or pass exactly: {phrase}", phrase)
    raise ConsentMissing(
        f"The consent given is not the one needed, so nothing was done: type or pass exactly: "
        f"{phrase}",
        phrase,
    )


def require_phrases(given: Sequence[str], groups: Iterable[_Agreed]) -> None:
    """Return if the phrase of each of *groups* is among *given*.

    Raises:
        ConsentMissing: a phrase is missing; the error carries all of them.
    """
    phrases = [group.phrase for group in groups]
    missing = [phrase for phrase in phrases if phrase not in given]
    if not missing:
        return
    if len(phrases) == 1:
        require_consent(next(iter(given), None), missing[0])
    told = f"{len(missing):,} of {len(phrases):,} phrases are missing, so nothing was done"
    raise ConsentMissing(
        f"{told}: pass each with --consent",
        missing[0],
        [*[phrase for phrase in phrases if phrase not in missing], *missing],
    )
