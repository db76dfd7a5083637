"""`failed-logdir`: a broker that lives, and one of its two disks that does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.segments import read_log
from breakglass.services.model import TopicPartition
from tests.kit.log_dir import repair_log_dir
from tests.lab.asking import list_offset
from tests.lab.scenarios.damaged import Damaged, damaged, ends_on_disk, ends_told

pytestmark = pytest.mark.slow

FAILED, OTHER = TopicPartition("readings", 0), TopicPartition("readings", 1)
NOT_LEADER_OR_FOLLOWER = 6
KAFKA_STORAGE_ERROR = 56


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "failed-logdir") as lab:
        yield lab


@pytest.fixture(scope="module")
def log_dir(lab: Damaged) -> Path:
    return Path(lab.truth.notes["failed log directory"])


def test_b1_is_unfenced_and_still_leads_from_its_other_disk(lab: Damaged) -> None:
    assert lab.cluster.fenced() == {1: False, 2: False}
    assert (lab.state(FAILED).leader, lab.state(OTHER).leader) == (None, 1)
    assert lab.state(FAILED).offline_replicas == (1,)


def test_b1_answers_for_its_replica_with_a_storage_error(lab: Damaged) -> None:
    assert list_offset(lab.cluster, 1, FAILED).error == KAFKA_STORAGE_ERROR
    assert ends_told(lab) == ends_on_disk(lab) == {FAILED: {2: 100}, OTHER: {1: 125, 2: 125}}


def test_the_truth_knows_what_is_out_of_reach(lab: Damaged, log_dir: Path) -> None:
    truth = lab.truth_of(FAILED)
    assert (truth.replica(1).disk, truth.replica(1).log_end) == ("failed", 125)
    assert truth.choice(2).unread == 25
    assert read_log(log_dir / str(FAILED)).end == 125


def test_started_again_b1_may_not_say_why_but_the_controller_still_does(lab: Damaged) -> None:
    lab.cluster.broker(1).kill()
    lab.cluster.wait_fenced(1)
    lab.cluster.broker(1).start()
    lab.cluster.wait_ready()
    lab.cluster.wait_until(
        lambda: list_offset(lab.cluster, 1, OTHER).offset == 125, "b1 to load its other disk"
    )
    told = list_offset(lab.cluster, 1, FAILED).error
    assert told in (KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER)
    assert lab.cluster.fenced()[1] is False
    assert (lab.state(FAILED).leader, lab.state(FAILED).offline_replicas) == (None, (1,))


def test_repaired_with_its_data_it_brings_everything_back(lab: Damaged, log_dir: Path) -> None:
    lab.cluster.broker(1).kill()
    repair_log_dir(log_dir)
    lab.cluster.broker(1).start()
    lab.cluster.wait_partition("readings", 0, lambda state: state.leader == 1, "b1 to lead", via=1)
    assert list_offset(lab.cluster, 1, FAILED).offset == 125
