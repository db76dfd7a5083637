"""Narrowing a list down to some of its groups gives what listing every row would."""

import random
from dataclasses import replace

import pytest

from breakglass.services.incident.filters import _EXAMPLES
from breakglass.services.incident.listing import (
    Listing,
    ListingView,
    Restorer,
    RowOrder,
    forecast_of,
    listing,
    narrowed,
    relisted,
)
from breakglass.services.model import Role, TopicPartition
from tests.kit.extent import examples
from tests.kit.filters import parse_filter
from tests.kit.incidents import bomb, every_verdict, incident_of, many_offline, unread, waiting
from tests.unit.recovery.replicas import log, offline, silent

INCIDENTS = {
    "every verdict": every_verdict(),
    "many": many_offline(400, topics=4),
    "unread": unread(20),
}
PLAIN = ("o", "orders", "ORD", "-carts", "s-1", "7", "orders-*", "is:bomb", "is:unjudged")
WORDS = (*_EXAMPLES.values(), *PLAIN)


@pytest.mark.parametrize("name", INCIDENTS)
@pytest.mark.parametrize("order", RowOrder)
def test_a_part_of_the_whole_list_is_what_listing_all_rows_makes(
    name: str, order: RowOrder
) -> None:
    rows = INCIDENTS[name].rows
    for text in ("", *WORDS):
        view = ListingView(parse_filter(text), order)
        made = narrowed(listing(rows, ListingView()), view)
        assert made is None or contents(made) == contents(listing(rows, view)), text


def contents(made: Listing) -> list[tuple[object, ...]]:
    return [(group.key, group.rows, str(group)) for group in made.groups]


def test_the_group_of_the_partition_to_keep_is_opened_if_there_is_one() -> None:
    rows = many_offline(40).rows
    keep = rows[-1].partition
    view = ListingView(parse_filter(keep.topic))
    made = narrowed(listing(rows, ListingView()), view, keep=keep)
    assert made is not None
    assert made.opened == listing(rows, view, keep=keep).opened
    assert len(made.opened) == 1
    gone = TopicPartition(keep.topic, 10_000)
    assert listing(rows, ListingView(), keep=gone).opened == frozenset()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5])
@pytest.mark.parametrize("seed", range(examples(20)))
@pytest.mark.parametrize("name", ["every verdict", "many"])
def test_listing_again_what_changed_is_what_listing_all_rows_makes(
    name: str, seed: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions come, go, and are judged otherwise: each is where it would be in a new list."""
    monkeypatch.setattr("breakglass.services.incident.listing.MOST_RELISTED", 0.4)
    chance = random.Random(seed)
    before = list(INCIDENTS[name].rows)
    others = [row.judged for row in every_verdict().rows] + [None]
    now = list(before)
    for turn in range(1 + int(share * len(before))):
        place = chance.randrange(len(now))
        match chance.randrange(4):
            case 0:
                del now[place]
            case 1:
                now[place] = replace(now[place], judged=chance.choice(others))
            case 2:
                now[place] = replace(now[place], log_end=7)
            case _:
                state = now[place].state
                partition = TopicPartition(state.partition.topic, 10_000 + turn)
                now.append(replace(now[place], state=replace(state, partition=partition)))
    now.sort(key=lambda row: row.partition)
    whole = listing(before, ListingView())
    made = relisted(whole, before, now)
    wanted = listing(now, ListingView())
    assert contents(made) == contents(wanted)
    assert made.by_key == {group.key: group for group in made.groups}


RETURNING = offline(log(1, (0, 9), role=Role.LAST_KNOWN_ELR), silent(3), topic="stock", number=0)
"""b1 is live and led last."""
CUT_OFF = offline(log(2, (0, 9), role=Role.ELR, fenced=True), log(1, (0, 5)), number=9)
"""b2 runs and is fenced."""


def test_harm_comes_first_then_what_comes_back_then_what_stays() -> None:
    rows = incident_of(waiting(0), waiting(1), RETURNING, bomb(0)).rows
    told = [
        (
            outlook.successor,
            outlook.harmful,
            outlook.whole,
            [str(row.partition) for row in outlook.rows],
        )
        for outlook in forecast_of(rows).outlooks
    ]
    assert told == [
        (4, True, False, ["carts-0"]),
        (1, False, True, ["stock-0"]),
        (None, False, False, ["orders-0", "orders-1"]),
    ]


def test_who_is_to_be_started_and_who_only_reconnected_are_told_apart() -> None:
    rows = incident_of(waiting(0), waiting(1), CUT_OFF, RETURNING).rows
    assert forecast_of(rows).restores == (Restorer(3, 2, runs=False), Restorer(2, 1, runs=True))
