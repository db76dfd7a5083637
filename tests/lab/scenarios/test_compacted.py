"""`compacted`: what one replica holds and the other lacks is not always lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.lab.segments import read_log
from breakglass.services.lab.topics import elect_unclean
from breakglass.services.model import TopicPartition
from tests.lab.asking import consume
from tests.lab.scenarios.damaged import Damaged, damaged, ends_on_disk, ends_told

PROFILES = TopicPartition("profiles", 0)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "compacted") as lab:
        yield lab


def offsets(lab: Damaged, broker: int) -> set[int]:
    """Offsets that hold a record on a broker's disk."""
    folder = lab.cluster.broker(broker).partition_folder("profiles", 0)
    return {offset for _, offset in read_log(folder).identities}


def test_the_replicas_have_different_holes(lab: Damaged) -> None:
    assert lab.state(PROFILES).offline
    assert ends_told(lab) == ends_on_disk(lab) == {PROFILES: {1: 135, 2: 100}}
    assert offsets(lab, 2) == set(range(100))
    assert offsets(lab, 1) == {*range(25), *range(75, 135)}


def test_electing_the_longer_one_loses_no_key_and_no_newer_value(lab: Damaged) -> None:
    assert [choice.committed for choice in lab.truth_of(PROFILES).choices] == [0, 35]
    elect_unclean(lab.cluster, PROFILES)
    lab.cluster.wait_partition("profiles", 0, lambda state: state.leader == 1, "b1 to lead")
    newest = {key: offset for offset, key in sorted(consume(lab.cluster, PROFILES).items())}
    on_b2 = {
        key: offset
        for written in lab.truth_of(PROFILES).written
        for offset, key in enumerate(written.keys, start=written.start)
        if offset < 100
    }
    assert set(on_b2) == {f"user-{number}" for number in range(75)}
    assert all(newest[key] >= offset for key, offset in on_b2.items())
