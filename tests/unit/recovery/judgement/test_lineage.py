"""Where two logs diverge, by table and against logs compared record by record."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import EpochHistory, ReplicaLog, Unknown
from breakglass.services.recovery.judgement.lineage import Divergences, divergence
from tests.unit.recovery.histories import (
    Disk,
    SimulatedCluster,
    simulated_clusters,
    with_recent_epochs,
)
from tests.unit.recovery.replicas import log, silent

ANCIENT = replace(log(1, (0, 50)), epochs=EpochHistory((), 0))
RECENT = with_recent_epochs(log(1, (0, 50), (4, 90)), 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(log(1, (7, 40)), log(2, (3, 90), start=60), id="out of order, no overlap"),
        pytest.param(log(1, (0, 100)), silent(2), id="an unread history"),
        pytest.param(RECENT, log(2, (0, 60)), id="a history that does not reach a common epoch"),
        pytest.param(ANCIENT, log(2, (0, 50)), id="records without epochs"),
    ],
)
def test_what_was_not_read_leaves_the_divergence_unknown(
    one: ReplicaLog, other: ReplicaLog
) -> None:
    assert isinstance(divergence(one, other), Unknown)


def test_a_third_replica_settles_what_two_histories_do_not_reach() -> None:
    """b1 parts from b2 in epoch 4, b2 from b3 earlier: so b1 parts from b3 there as well."""
    one = with_recent_epochs(log(1, (0, 10), (2, 50), (4, 90)), 1)
    two = log(2, (0, 10), (2, 50), (4, 70), (5, 80))
    three = log(3, (0, 10), (2, 30), (3, 60))
    assert isinstance(divergence(one, three), Unknown)
    assert Divergences([one, two, three]).between(one, three) == 30


def test_a_third_replica_that_begins_past_where_two_parted_settles_nothing() -> None:
    """It parts from b2 where its own log begins, because it holds nothing below."""
    one = with_recent_epochs(log(1, (0, 10), (1, 40)), 1)
    two, third = log(2, (0, 12), (2, 50)), log(3, (1, 40), start=20)
    assert (divergence(one, third), divergence(third, two)) == (40, 20)
    assert isinstance(Divergences([one, two, third]).between(one, two), Unknown)


def shared_offsets(one: Disk, other: Disk) -> range:
    return range(max(one.start, other.start), min(one.end, other.end))


def parting(one: Disk, other: Disk) -> int:
    """By comparing records: the first shared offset with different epochs, or where one ends."""
    shared = shared_offsets(one, other)
    return next((at for at in shared if one.epochs[at] != other.epochs[at]), shared.stop)


@given(simulated_clusters())
def test_divergence_is_what_comparing_every_record_finds(cluster: SimulatedCluster) -> None:
    for one, other in permutations(cluster.disks, 2):
        if shared := shared_offsets(one, other):
            found = divergence(one.replica(), other.replica())
            assert isinstance(found, int)
            assert max(found, shared.start) == parting(one, other)


@given(simulated_clusters(), st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_a_shorter_history_gives_the_same_divergence_or_none(
    cluster: SimulatedCluster, counts: list[int]
) -> None:
    replicas = [
        with_recent_epochs(disk.replica(), count)
        for disk, count in zip(cluster.disks, counts, strict=True)
    ]
    found = Divergences(replicas)
    for (one, a), (other, b) in permutations(zip(cluster.disks, replicas, strict=True), 2):
        between, shared = found.between(a, b), shared_offsets(one, other)
        if isinstance(between, int) and shared:
            assert max(between, shared.start) == parting(one, other)
