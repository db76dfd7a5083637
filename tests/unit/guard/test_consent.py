"""What an operator has to type: one phrase for the bulk, one each for what stands alone."""

import pytest

from breakglass.services.errors import ConsentMissing
from breakglass.services.guard.consent import (
    Price,
    Stake,
    consent_groups,
    consent_phrase,
    implied_groups,
    require_consent,
    require_phrases,
)
from breakglass.services.model import TopicPartition, Unknown

SILENT = Price(Unknown("b1 does not answer"))


def orders(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def stake(number: int, price: Price, why_alone: str = "") -> Stake:
    return Stake(orders(number), price, why_alone)


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


def test_r17_partitions_of_one_kind_share_a_phrase_with_the_sum() -> None:
    whole = "b1 would bring it back whole: start it, or declare it gone (--gone 1)"
    internal = [
        Stake(TopicPartition(topic, number), Price(1, approximate=True), "internal", (2,))
        for topic, count in (("__transaction_state", 1), ("__consumer_offsets", 50))
        for number in range(count)
    ]
    passing = [stake(number, Price(number), whole) for number in range(5)]
    assert [group.phrase for group in consent_groups([*internal, *passing])] == [
        "__transaction_state-0 lose ~1 and abandon b2",
        "__consumer_offsets: 50 lose ~50 and abandon b2",
        "5 partitions lose 10",
    ]


def test_no_two_phrases_are_the_same() -> None:
    reasons = ["", "", "b3 may hold more", "b3 may hold more", "the loss may be larger"]
    stakes = [Stake(orders(number), Price(0), why, (3,)) for number, why in enumerate(reasons)]
    assert [group.phrase for group in consent_groups(stakes)] == [
        "orders-2 and 1 more lose 0 and abandon b3",
        "orders-4 lose 0 and abandon b3",
        "orders-0 and 1 more lose 0 and abandon b3",
    ]


def test_a_refusal_carries_every_phrase_those_that_are_missing_last() -> None:
    groups = consent_groups([stake(0, Price(3)), stake(1, SILENT, "unread"), stake(2, Price(0))])
    with pytest.raises(ConsentMissing) as refused:
        require_phrases([], groups)
    assert refused.value.phrases == ("orders-1 lose unknown", "2 partitions lose 3")
    with pytest.raises(ConsentMissing) as refused:
        require_phrases(["2 partitions lose 3", "another"], groups)
    assert refused.value.phrases == ("2 partitions lose 3", "orders-1 lose unknown")
    require_phrases(["2 partitions lose 3", "another", "orders-1 lose unknown"], groups)


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
