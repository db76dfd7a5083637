"""`many`: thousands of partitions go offline together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.model import Role
from tests.lab.scenarios.damaged import Damaged, damaged

PARTITIONS = 2000


@pytest.fixture(scope="module")
def lab(fast_folder: Path) -> Iterator[Damaged]:
    with damaged(fast_folder, "many") as lab:
        yield lab


def test_all_of_them_are_offline_with_two_stale_replicas_each(lab: Damaged) -> None:
    states = lab.cluster.partitions("events")
    assert len(states) == PARTITIONS
    assert all(state.offline for state in states)
    roles = Counter((state.role(1), state.role(2), state.role(3)) for state in states)
    assert roles == {(Role.STALE, Role.STALE, Role.ELR): PARTITIONS}


def test_half_of_them_are_lost_to_whoever_elects_by_order(lab: Damaged) -> None:
    assert Counter(truth.assignment for truth in lab.truth.partitions) == {
        (3, 1, 2): PARTITIONS // 2,
        (3, 2, 1): PARTITIONS // 2,
    }
    ends = Counter(
        tuple(truth.replica(broker).log_end for broker in (1, 2, 3))
        for truth in lab.truth.partitions
    )
    assert ends == {(3, 2, 3): PARTITIONS}
    assert {truth.choice(2).committed for truth in lab.truth.partitions} == {1}
    assert {truth.choice(1).acked for truth in lab.truth.partitions} == {0}
