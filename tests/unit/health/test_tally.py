"""Sums over all partitions are worked out once, for as long as none has changed."""

from __future__ import annotations

from dataclasses import replace

from breakglass.services.health.counts import tally
from tests.kit.incidents import online_partition

PARTITIONS = tuple(online_partition("orders", number) for number in range(4))


def test_the_very_same_partitions_are_not_summed_up_again() -> None:
    first = tally(PARTITIONS, {"orders": 2})
    assert tally(PARTITIONS, {"orders": 2}, first) is first


def test_another_minimum_changes_the_counts_and_keeps_what_brokers_hold() -> None:
    short = (replace(PARTITIONS[0], isr=(1,)), *PARTITIONS[1:])
    first = tally(short, {"orders": 1})
    second = tally(short, {"orders": 2}, first)
    assert (first.counts.under_min_isr, second.counts.under_min_isr) == (0, 1)
    assert second.held is first.held


def test_a_change_of_one_partition_is_seen() -> None:
    first = tally(PARTITIONS, {})
    changed = (replace(PARTITIONS[0], leader=None, isr=()), *PARTITIONS[1:])
    assert (first.counts.offline, tally(changed, {}, first).counts.offline) == (0, 1)
