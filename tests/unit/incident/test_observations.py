"""What was seen is on disk, whole, for every session of this account."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import list_journals
from breakglass.services.incident.elections_seen import ElectionSeen, LogFate, ReplicaAhead
from breakglass.services.incident.observations import (
    Observations,
    clusters_observed,
    unacknowledged,
)
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.timeline.shelf import Shelf

CLUSTER = "Kx/3=="
SEEN = ElectionSeen(
    TopicPartition("orders", 3), "an-id", 2, 6, 5_000, 70, False, 1, 103, 33, False,
    (ReplicaAhead(1, 103, 0, LogFate.DOWN),),
)  # fmt: skip
CUT = replace(SEEN, seen_at_ms=9_000, holders=(ReplicaAhead(1, 103, 0, LogFate.TRUNCATED),))


@pytest.fixture
def store(tmp_path: Path) -> Observations:
    return Observations(CLUSTER, tmp_path)


def test_one_election_counts_once_from_when_it_was_first_seen(store: Observations) -> None:
    store.add([SEEN])
    store.add([CUT])
    (one,) = store.load()
    assert (one.seen.seen_at_ms, one.seen.holders) == (5_000, CUT.holders)


def test_an_acknowledgement_counts_for_what_was_seen_and_is_kept(store: Observations) -> None:
    later = replace(SEEN, leader_epoch=8)
    store.add([SEEN])
    store.acknowledge([SEEN.key])
    store.add([CUT, later])
    assert list(unacknowledged(store.load())) == [later]


def test_lines_that_cannot_be_read_are_passed_over(store: Observations) -> None:
    store.add([SEEN])
    with store.path.open("ab") as file:
        file.write(b'{"schema": 99, "kind": "observed"}\n[]\n{"schema": 1, "ki')
    later = replace(SEEN, leader_epoch=8, seen_at_ms=8_000)
    store.add([later])
    assert [observation.seen for observation in store.load()] == [later, SEEN]


def test_they_are_for_their_owner_alone_and_no_journals(
    store: Observations, tmp_path: Path
) -> None:
    store.add([SEEN])
    assert store.path.stat().st_mode & 0o077 == 0
    assert list_journals(CLUSTER, tmp_path) == []
    assert Shelf(tmp_path).clusters() == []
    assert clusters_observed(tmp_path) == [CLUSTER]


def test_a_fifo_in_place_of_the_file_keeps_nobody_waiting(store: Observations) -> None:
    store.path.parent.mkdir(parents=True)
    os.mkfifo(store.path)
    with pytest.raises(StorageError):
        store.load()
