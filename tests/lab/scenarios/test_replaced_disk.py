"""`replaced-disk`: the last leader is back with an empty disk, about to be elected (R1, R2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.lab.truth import Condition, TrueVerdict
from breakglass.services.model import Role, TopicPartition
from tests.lab.scenarios.damaged import Damaged, damaged, ends_on_disk, ends_told

CARTS = [TopicPartition("carts", number) for number in range(3)]


def test_the_empty_last_leader_is_live_and_next_in_line(three_losses: Damaged) -> None:
    assert three_losses.truth.brokers[4] is Condition.RUNNING
    assert three_losses.cluster.fenced(via=1)[4] is False
    for partition in CARTS:
        state = three_losses.state(partition)
        assert state.leader is None
        assert state.role(4) in (Role.ISR, Role.LAST_KNOWN_ELR)
        assert [state.role(broker) for broker in (1, 2)] == [Role.STALE, Role.STALE]
        assert state.offline_replicas == ()


def test_it_is_empty_and_the_others_are_not(three_losses: Damaged) -> None:
    told = ends_told(three_losses)
    assert [told[partition] for partition in CARTS] == [{4: 0, 1: 125, 2: 100}] * 3
    assert told == ends_on_disk(three_losses)


def test_electing_it_would_lose_everything(three_losses: Damaged) -> None:
    for partition in CARTS:
        truth = three_losses.truth_of(partition)
        assert truth.replica(4).disk == "replaced"
        assert truth.choice(4).committed == 125
        assert truth.choice(4).acked == 150
        assert truth.choice(1).acked == 25
        expected = truth.expectation
        assert (expected.verdict, expected.broker, expected.designee) == (TrueVerdict.BOMB, 4, 1)
        assert expected.if_gone is TrueVerdict.SAFE


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def left_alone(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Damaged]:
    folder = tmp_path_factory.mktemp("left-alone")
    name = "replaced-disk-unattended"
    with damaged(folder, name, kafka_version=request.param) as lab:
        yield lab


def test_r02_left_alone_the_controller_elects_it_and_every_replica_is_wiped(
    left_alone: Damaged,
) -> None:
    for partition in CARTS:
        assert left_alone.state(partition).leader == 4
        assert ends_told(left_alone)[partition] == {1: 0, 2: 0, 4: 0}
        assert left_alone.truth_of(partition).choice(1).acked == 150
