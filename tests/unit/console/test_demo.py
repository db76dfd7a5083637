"""What the demo prints after the operator has practised."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from breakglass.console.demo import how_it_was_left
from breakglass.services.model import TopicPartition


def truth_of(designee: int) -> SimpleNamespace:
    partition = TopicPartition("ledger", 0)
    one = SimpleNamespace(partition=partition, expectation=SimpleNamespace(designee=designee))
    return SimpleNamespace(partitions=(one,))


def left(leader: int | None) -> list[str]:
    state = SimpleNamespace(partition=TopicPartition("ledger", 0), leader=leader)
    return list(how_it_was_left([state], truth_of(designee=1)))  # type: ignore[list-item,arg-type]


@pytest.mark.parametrize(("leader", "brokers"), [(1, {"b1"}), (2, {"b1", "b2"}), (None, {"b1"})])
def test_it_names_who_leads_and_who_loses_least(leader: int | None, brokers: set[str]) -> None:
    (line,) = left(leader)
    assert set(re.findall(r"b\d", line)) == brokers
    assert ("offline" in line) == (leader is None)
