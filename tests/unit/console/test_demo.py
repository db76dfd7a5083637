"""What the demo says after the operator has practised."""

from __future__ import annotations

from types import SimpleNamespace

from breakglass.console.demo import how_it_was_left
from breakglass.services.model import TopicPartition


def truth_of(designee: int) -> SimpleNamespace:
    partition = TopicPartition("ledger", 0)
    one = SimpleNamespace(partition=partition, expectation=SimpleNamespace(designee=designee))
    return SimpleNamespace(partitions=(one,))


def left(leader: int | None) -> list[str]:
    state = SimpleNamespace(partition=TopicPartition("ledger", 0), leader=leader)
    return list(how_it_was_left([state], truth_of(designee=1)))  # type: ignore[list-item,arg-type]


def test_it_says_which_partitions_are_led_by_the_replica_that_loses_least() -> None:
    assert left(1) == ["ledger-0  led by b1, which loses least"]


def test_it_says_where_another_would_have_lost_less() -> None:
    assert left(2) == ["ledger-0  led by b2; b1 would have lost less"]


def test_it_says_what_is_still_offline() -> None:
    assert left(None) == ["ledger-0  still offline; b1 loses least"]
