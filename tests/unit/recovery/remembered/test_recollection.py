"""Journals and memory of this account, and journals of colleagues, on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.remembered import recollection
from breakglass.services.recovery.remembered.heard import leaders_of
from breakglass.services.recovery.remembered.recollection import Recollection
from breakglass.services.recovery.triage import Triage, triage
from breakglass.services.session import Effort, ReadAccess
from breakglass.services.snapshot import ClusterSnapshot
from tests.kit.deadlines import endless
from tests.kit.fake_cluster import FakeCluster
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.recovery.remembered.test_passed_over import ALL_LED, GIVEN_UP, ORDERS, written
from tests.unit.recovery.timeline.journals import CLUSTER, elected, unknown

LEDGER, CARTS = TopicPartition("ledger", 0), TopicPartition("carts", 0)


@pytest.fixture
def snapshot(cluster: FakeCluster) -> ClusterSnapshot:
    """A cluster whose `orders` were elected without b3."""
    with reading(cluster) as client:
        return replace(last(client).snapshot, partitions=tuple(ALL_LED))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """`carts` waits for b3; of `ledger` b1 was read with a longer log than b2, and went down."""
    endless(monkeypatch)
    with FakeCluster(3) as cluster:
        cluster.story.offline(CARTS, (3, 2), last=(3,))
        cluster.story.offline(LEDGER, (1, 2), last=(3,))
        cluster.hold(2, CARTS, (0, 50))
        cluster.hold(1, LEDGER, (0, 100), (1, 125))
        cluster.hold(2, LEDGER, (0, 100))
        cluster.story.fenced = {3}
        cluster.brokers[3].stop()
        yield cluster


def reading(cluster: FakeCluster) -> AbstractContextManager[ReadClient]:
    settings = ConnectionSettings((cluster.brokers[2].endpoint,))
    return ReadAccess(settings, contents=Effort.OFF).reading()


def last(client: ReadClient) -> Triage:
    *_, found = triage(client, DEADLINE_SECONDS, contents=Effort.OFF)
    return found


def names(found: Recollection, snapshot: ClusterSnapshot) -> dict[int, tuple[TopicPartition, ...]]:
    return {
        broker: one.partitions for broker, one in found.passed_over(snapshot, whole=True).items()
    }


def test_r27_journals_of_this_account_are_evidence(
    tmp_path: Path, snapshot: ClusterSnapshot
) -> None:
    known = Recollection(CLUSTER, tmp_path)
    assert names(known, snapshot) == {}
    written(tmp_path, dict.fromkeys(ORDERS, elected()))
    assert names(known, snapshot) == {GIVEN_UP: ORDERS}
    assert known.troubles == ()


@pytest.mark.parametrize("by", ["file", "folder", "state folder", "environment"])
def test_journals_of_a_colleague_are_evidence_where_they_are_named(
    tmp_path: Path, snapshot: ClusterSnapshot, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    theirs = tmp_path / "theirs"
    path = written(theirs, dict.fromkeys(ORDERS, unknown())).path
    named = {"file": path, "folder": path.parent, "state folder": theirs}
    if by == "environment":
        monkeypatch.setenv("BREAKGLASS_JOURNALS", f"/nowhere:{path.parent}")
    journals = (named[by],) if by in named else ()
    assert names(Recollection(CLUSTER, tmp_path / "ours"), snapshot) == (
        {GIVEN_UP: ORDERS} if by == "environment" else {}
    )
    assert names(Recollection(CLUSTER, tmp_path / "ours", journals), snapshot) == {GIVEN_UP: ORDERS}


def test_a_journal_of_another_cluster_says_nothing_of_this_one(
    tmp_path: Path, snapshot: ClusterSnapshot
) -> None:
    path = written(tmp_path / "theirs", dict.fromkeys(ORDERS, elected())).path
    assert names(Recollection("another", tmp_path / "ours", [path]), snapshot) == {}


def test_a_journal_that_cannot_be_read_or_is_too_large_is_named(
    tmp_path: Path, snapshot: ClusterSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, dict.fromkeys(ORDERS, elected())).path
    path.write_bytes(b"{}\n" + path.read_bytes())
    damaged = Recollection(CLUSTER, tmp_path)
    assert names(damaged, snapshot) == {}
    assert str(path) in damaged.troubles[0]
    monkeypatch.setattr(recollection, "MOST_BYTES", 10)
    large = Recollection(CLUSTER, tmp_path)
    assert names(large, snapshot) == {}
    assert str(path) in large.troubles[0]


def test_r27_without_any_journal_the_leaders_epochs_tell_what_was_heard_and_is_cut(
    cluster: FakeCluster,
) -> None:
    with reading(cluster) as client:
        assert last(client).passed_over == ()
    cluster.story.fenced = {1, 3}
    cluster.brokers[1].stop()
    state = cluster.story.states[LEDGER]
    epoch = state.leader_epoch + 1
    cluster.story.states[LEDGER] = replace(state, leader=2, leader_epoch=epoch, isr=(2,))
    with reading(cluster) as client:
        found = last(client)
    (passed,) = found.passed_over
    assert (passed.broker, passed.partitions, passed.proved) == (1, (LEDGER,), True)
    assert 1 in found.circumstances.copy_first


@pytest.mark.parametrize(
    ("first", "epoch", "action"),
    [
        pytest.param(0, 1, "start b3", id="no epoch is missing"),
        pytest.param(0, 3, "check b3 first", id="one is missing"),
        pytest.param(100, 3, "check b3 first", id="the oldest were deleted"),
        pytest.param(None, 3, "check b3 first", id="the leader is not read"),
    ],
)
def test_r46_a_broker_that_missing_epochs_may_have_passed_over_is_not_started_unread(
    cluster: FakeCluster, first: int | None, epoch: int, action: str
) -> None:
    cluster.hold(2, LEDGER, (0, 100), (epoch, 10)).log.delete_below(first or 0)
    if first is None:
        del cluster.replicas[2, LEDGER]
    cluster.story.states[LEDGER] = replace(
        cluster.story.states[LEDGER],
        leader=2, leader_epoch=epoch, isr=(2,), assignment=(2, 3), last_known_elr=(),
    )  # fmt: skip
    with reading(cluster) as client:
        found = last(client)
        assert str(found.assessments[0].action) == action
        named = [(one.broker, one.partitions, one.proved) for one in found.passed_over]
        assert named == ([(3, (LEDGER,), False)] if epoch == 3 else [])
        assert found.summary.headline.startswith("Check the disk of b3") == (epoch == 3)
        memory = Recollection(found.snapshot.cluster_id).memory
        memory.note_checked(3, "other leaders")
        assert last(client).passed_over == found.passed_over
        memory.note_checked(3, leaders_of(3, found.snapshot.partitions))
        assert last(client).passed_over == ()
