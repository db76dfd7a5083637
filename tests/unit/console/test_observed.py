"""`breakglass journal observed`, and the commands that repeat what nobody has acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.incident.elections_seen import ElectionSeen, LogFate, ReplicaAhead
from breakglass.services.incident.observations import Observations
from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import CLUSTER_ID
from tests.kit.program import breakglass

SEEN = ElectionSeen(
    TopicPartition("carts", 0), "an-id", 4, 6, 82_971_000, 0, True, 1, 125, 125, False,
    (ReplicaAhead(1, 125, 0, LogFate.DOWN),),
)  # fmt: skip
LINE = "b4 was elected EMPTY, seen at 23:02:51Z: carts-0 went from 125 to 0"


@pytest.fixture
def store(user_folders: Path) -> Observations:
    """With what a console saw of the cluster, in the user's state folder."""
    found = Observations(CLUSTER_ID)
    found.add([SEEN])
    return found


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as cluster:
        yield cluster


def triage(cluster: FakeCluster, *more: str) -> str:
    ended = breakglass("triage", "--bootstrap-server", cluster.brokers[1].endpoint, *more)
    assert ended.code == 0, ended.err
    return ended.err


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_triage_repeats_it_until_somebody_takes_note(
    cluster: FakeCluster, store: Observations, more: tuple[str, ...]
) -> None:
    assert f"SEEN: {LINE}" in triage(cluster, *more)
    assert breakglass("journal", "observed", "--acknowledge").code == 0
    assert "SEEN" not in triage(cluster, *more)


def test_triage_of_another_cluster_says_nothing(cluster: FakeCluster, store: Observations) -> None:
    cluster.story.cluster_id = "another"
    assert "SEEN" not in triage(cluster)


def test_the_list_of_journals_says_it_on_stderr(store: Observations) -> None:
    ended = breakglass("journal", "list")
    assert f"SEEN: {LINE}" in ended.err
    assert ended.out == ""


def test_it_is_listed_with_who_saw_it_and_who_took_note(store: Observations) -> None:
    assert LINE in breakglass("journal", "observed").out
    assert breakglass("journal", "observed", "--cluster", "another").out == ""
    (one,) = breakglass("journal", "observed", "--json").document["observations"]
    assert (one["cluster_id"], one["missing"], one["acknowledged_by"]) == (CLUSTER_ID, 125, None)
    breakglass("journal", "observed", "--acknowledge")
    (one,) = breakglass("journal", "observed", "--json").document["observations"]
    assert one["acknowledged_by"]


def test_observations_that_cannot_be_read_stop_no_triage(
    cluster: FakeCluster, store: Observations
) -> None:
    store.path.unlink()
    store.path.mkdir()
    assert "cannot be read" in triage(cluster)
