"""`unregistered-broker`: the cluster has forgotten a broker, its topics have not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.model import TopicPartition
from tests.lab.asking import election_code, reassign_code
from tests.lab.scenarios.damaged import Damaged, damaged, ends_on_disk, ends_told

pytestmark = pytest.mark.slow

FIRST, SECOND = TopicPartition("archive", 0), TopicPartition("archive", 1)
INVALID_REPLICA_ASSIGNMENT = 39


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "unregistered-broker") as lab:
        yield lab


def test_b3_is_assigned_and_eligible_but_not_registered(lab: Damaged) -> None:
    assert lab.cluster.fenced() == {1: False, 2: False}
    for partition in (FIRST, SECOND):
        state = lab.state(partition)
        assert state.offline
        assert (state.assignment[0], state.elr, state.last_known_elr) == (3, (3,), (3,))


def test_the_others_hold_what_the_truth_says(lab: Damaged) -> None:
    ends = {1: 125, 2: 100}
    assert ends_told(lab) == ends_on_disk(lab) == {FIRST: ends, SECOND: ends}
    assert lab.truth_of(SECOND).choice(2).committed == 25


def test_r12_no_order_that_names_it_is_taken(lab: Damaged) -> None:
    code, message = reassign_code(lab.cluster, SECOND, [1, 2, 3])
    assert code == INVALID_REPLICA_ASSIGNMENT
    assert message is not None
    assert "includes broker 3, but no such broker is registered" in message


@pytest.mark.parametrize(("partition", "elected"), [(FIRST, 1), (SECOND, 2)])
def test_r12_an_election_can_only_follow_the_order_there_is(
    lab: Damaged, partition: TopicPartition, elected: int
) -> None:
    assert election_code(lab.cluster, partition) == (0, None)
    lab.cluster.wait_partition(
        partition.topic,
        partition.partition,
        lambda state: state.leader == elected,
        f"b{elected} to lead",
    )
