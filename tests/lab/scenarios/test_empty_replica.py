"""`empty-replica`: the replica before the best one in the assignment holds nothing (KIP-1275)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.lab.topics import elect_unclean
from breakglass.services.lab.truth import CountedLoss
from breakglass.services.model import Role, TopicPartition
from tests.lab.asking import list_offset
from tests.lab.scenarios.damaged import Damaged, damaged, ends_on_disk, ends_told

INVOICES = TopicPartition("invoices", 0)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "empty-replica") as lab:
        yield lab


def test_an_empty_replica_stands_before_the_one_with_records(lab: Damaged) -> None:
    state = lab.state(INVOICES)
    assert (state.leader, state.assignment) == (None, (3, 2, 1))
    assert [state.role(broker) for broker in (2, 1)] == [Role.STALE, Role.STALE]
    assert ends_told(lab) == ends_on_disk(lab) == {INVOICES: {2: 0, 1: 100}}


def test_electing_it_would_lose_the_whole_log(lab: Damaged) -> None:
    truth = lab.truth_of(INVOICES)
    assert truth.choice(2) == CountedLoss(2, committed=100, uncommitted=0, unread=20, acked=120)
    assert truth.choice(1) == CountedLoss(1, committed=0, uncommitted=0, unread=20, acked=20)
    assert truth.expectation.designee == 1


def test_an_election_by_order_does_so(lab: Damaged) -> None:
    elect_unclean(lab.cluster, INVOICES)
    lab.cluster.wait_partition("invoices", 0, lambda state: state.leader == 2, "b2 to lead")
    lab.cluster.wait_until(
        lambda: list_offset(lab.cluster, 1, INVOICES).offset == 0, "b1 to be cut"
    )
