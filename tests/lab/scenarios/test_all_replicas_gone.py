"""`all-replicas-gone`: only the cluster's metadata and a group remember the partition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.lab.produce import produce
from breakglass.services.model import TopicPartition
from tests.lab.asking import committed_offset, list_offset
from tests.lab.scenarios.damaged import Damaged, damaged

pytestmark = pytest.mark.slow

ARCHIVE = TopicPartition("archive", 0)
NOT_LEADER_OR_FOLLOWER = 6


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "all-replicas-gone") as lab:
        yield lab


def test_every_replica_is_offline_and_another_broker_runs(lab: Damaged) -> None:
    state = lab.state(ARCHIVE)
    assert state.offline
    assert set(state.offline_replicas) == set(state.assignment) == {1, 2}
    assert lab.cluster.fenced() == {1: True, 2: True, 3: False}


def test_nobody_can_be_asked_or_elected(lab: Damaged) -> None:
    assert list_offset(lab.cluster, 3, ARCHIVE).error == NOT_LEADER_OR_FOLLOWER
    assert lab.truth_of(ARCHIVE).choices == ()


def test_r11_a_group_had_read_to_120(lab: Damaged) -> None:
    assert lab.truth.notes["committed offset of auditors"] == "120"
    assert committed_offset(lab.cluster, "auditors", ARCHIVE) == 120


def test_the_last_leader_would_bring_it_back_whole(lab: Damaged) -> None:
    lab.cluster.broker(1).start()
    lab.cluster.wait_partition("archive", 0, lambda state: state.leader == 1, "b1 to lead")
    assert produce(lab.cluster, "archive", 0, 1).offsets == (125,)
