"""`breakglass diff` on partitions that are offline: what the truth says, from every side."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest

from breakglass.services.model import TopicPartition
from tests.kit.program import breakglass
from tests.lab.scenarios.damaged import Damaged

LEDGER = TopicPartition("ledger", 0)
BROKERS = (1, 2, 3)


def address(lab: Damaged, kind: str, broker: int) -> str:
    if kind == "replica":
        return f"replica:{broker}/ledger/0"
    return f"log:{lab.cluster.broker(broker).partition_folder('ledger', 0)}"


def diff(lab: Damaged, left: str, right: str) -> tuple[int, dict[str, Any]]:
    servers = lab.cluster.bootstrap_servers
    ended = breakglass("diff", left, right, "--json", "--bootstrap-server", servers)
    return ended.code, json.loads(ended.out)


def expected(lab: Damaged, left: int, right: int) -> dict[str, int]:
    """By leader epochs: what both hold of one epoch at one offset is the same record."""
    truth = lab.truth_of(LEDGER)
    one, other = ({at: held.epoch for held in truth.replica(broker).epochs
                   for at in range(held.start, held.end)} for broker in (left, right))  # fmt: skip
    both = one.keys() & other.keys()
    same = sum(one[at] == other[at] for at in both)
    return {
        "equal": same,
        "left": len(one.keys() - both),
        "right": len(other.keys() - both),
        "different": len(both) - same,
        "unread": 0,
    }


KINDS: list[tuple[str, str]] = [("replica", "replica"), ("replica", "log")]
CASES = [
    (kinds, *brokers)
    for kinds in KINDS
    for brokers in combinations(BROKERS, 2)
    # b3 is dead: its log is on its disk alone.
    if kinds[1] == "log" or 3 not in brokers
]


@pytest.mark.parametrize(("kinds", "left", "right"), CASES)
def test_two_logs_of_an_offline_partition_differ_as_the_truth_says(
    three_losses: Damaged, kinds: tuple[str, str], left: int, right: int
) -> None:
    sides = [address(three_losses, kind, at) for kind, at in zip(kinds, (left, right), strict=True)]
    code, told = diff(three_losses, *sides)
    wanted = expected(three_losses, left, right)
    assert told["totals"] == wanted
    assert code == (1 if wanted["left"] or wanted["right"] or wanted["different"] else 0)
    _, mirrored = diff(three_losses, *sides[::-1])
    assert mirrored["totals"] == {**wanted, "left": wanted["right"], "right": wanted["left"]}


def test_the_topic_is_refused_and_its_replicas_are_named(three_losses: Damaged) -> None:
    servers = ("--bootstrap-server", three_losses.cluster.bootstrap_servers)
    ended = breakglass("diff", "topic:ledger/0", "replica:1/ledger/0", *servers)
    assert ended.code == 1
    assert "compare its replicas, as replica:" in ended.err
