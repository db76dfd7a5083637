"""What electing each replica loses, counted record by record over whole logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from breakglass.services.lab.truth import CountedLoss, Written

Identity = tuple[int, int]
"""(leader epoch, offset)."""


def count_choices(
    held: Mapping[int, Set[Identity]], readable: Iterable[int], written: Iterable[Written]
) -> tuple[CountedLoss, ...]:
    """The price of each readable replica, in the order given.

    *held* has the records of every replica, by broker; those of brokers that are not *readable*
    count as unread.
    """
    choices = tuple(readable)
    written = tuple(written)
    committed = _identities(one for one in written if one.committed)
    acked = _identities(written)
    within_reach = _union(held[broker] for broker in choices)
    out_of_reach = _union(held.values()) - within_reach
    return tuple(
        _choice(broker, held[broker], within_reach, out_of_reach, committed, acked)
        for broker in choices
    )


def _choice(
    broker: int,
    own: Set[Identity],
    within_reach: Set[Identity],
    out_of_reach: Set[Identity],
    committed: Set[Identity],
    acked: Set[Identity],
) -> CountedLoss:
    lost = within_reach - own
    return CountedLoss(
        broker=broker,
        committed=len(lost & committed),
        uncommitted=len(lost - committed),
        unread=len(out_of_reach - own),
        acked=len(acked - own),
    )


def _identities(written: Iterable[Written]) -> Set[Identity]:
    return frozenset((one.epoch, offset) for one in written for offset in range(one.start, one.end))


def _union(sets: Iterable[Set[Identity]]) -> Set[Identity]:
    return frozenset(identity for set_ in sets for identity in set_)
