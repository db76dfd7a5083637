"""What an operator has to type: one phrase for the bulk, one each for what stands alone."""

from __future__ import annotations

import pytest

from breakglass.services.errors import ConsentMissing
from breakglass.services.guard.consent import (
    Price,
    Stake,
    consent_groups,
    consent_phrase,
    implied_groups,
    require_consent,
)
from breakglass.services.model import TopicPartition, Unknown

SILENT = Price(Unknown("b1 does not answer"))


def stake(number: int, price: Price, why_alone: str = "") -> Stake:
    return Stake(TopicPartition("orders", number), price, why_alone)


@pytest.mark.parametrize(
    ("stakes", "phrases"),
    [
        ([], []),
        (
            [stake(0, Price(50)), stake(1, Price(1_200, approximate=True))],
            ["2 partitions lose ~1,250"],
        ),
        ([stake(0, Price(3)), stake(1, SILENT)], ["2 partitions lose unknown"]),
        (
            [stake(0, Price(0)), stake(1, SILENT, "loss unknown"), stake(2, Price(7), "internal")],
            ["orders-1 lose unknown", "orders-2 lose 7", "orders-0 lose 0"],
        ),
    ],
    ids=["nothing", "all in one phrase", "a sum with an unknown part", "what stands alone first"],
)
def test_one_phrase_agrees_to_all_that_needs_none_of_its_own(
    stakes: list[Stake], phrases: list[str]
) -> None:
    assert [group.phrase for group in consent_groups(stakes)] == phrases


@pytest.mark.parametrize("given", [None, "orders-3 lose 5", "orders-3 lose 50 "])
def test_anything_but_the_phrase_is_refused_and_the_refusal_carries_it(given: str | None) -> None:
    require_consent("orders-3 lose 50", "orders-3 lose 50")
    with pytest.raises(ConsentMissing) as refused:
        require_consent(given, "orders-3 lose 50")
    assert refused.value.phrase == "orders-3 lose 50"


def test_a_phrase_names_the_brokers_whose_unread_logs_are_given_up() -> None:
    assert (
        consent_phrase([TopicPartition("pay", 1)], Price(0), (3,)) == "pay-1 lose 0 and abandon b3"
    )
    many = [TopicPartition("pay", number) for number in range(3)]
    assert consent_phrase(many, Price(0), (2, 3)) == "3 partitions lose 0 and abandon b2, b3"


def test_in_bulk_partitions_that_abandon_the_same_brokers_share_a_phrase() -> None:
    given_up: list[tuple[int, ...]] = [(), (3,), (2, 3), (3,), ()]
    stakes = [
        Stake(TopicPartition("pay", number), Price(number), abandons=brokers)
        for number, brokers in enumerate(given_up)
    ]
    assert [group.phrase for group in consent_groups(stakes)] == [
        "2 partitions lose 4",
        "pay-2 lose 2 and abandon b2, b3",
        "2 partitions lose 4 and abandon b3",
    ]


def test_where_nobody_types_a_phrase_one_is_written_for_each_reason() -> None:
    alone = [
        Stake(TopicPartition("pay", number), Price(1), "b3 would bring it back whole", (3,))
        for number in range(2_000)
    ]
    internal = Stake(TopicPartition("__consumer_offsets", 0), Price(0), "it is an internal topic")
    assert [group.phrase for group in implied_groups(consent_groups([internal, *alone]))] == [
        "__consumer_offsets-0 lose 0",
        "2,000 partitions lose 2,000 and abandon b3",
    ]
