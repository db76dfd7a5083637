"""Journals and memory of this account, and journals of colleagues, on disk."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.guard.journal import Journal, JournalView, read
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.execution.steps import ELECT, described
from breakglass.services.recovery.remembered import recollection
from breakglass.services.recovery.remembered.recollection import (
    Abandonment,
    Recollection,
    abandonments_in,
    cut_by_leader,
    elections_in,
    standing,
)
from breakglass.services.recovery.remembered.store import HeardLog, leaders_of
from breakglass.services.recovery.triage import Triage, triage
from breakglass.services.session import Effort, ReadAccess
from breakglass.services.snapshot import ClusterSnapshot
from tests.kit.deadlines import endless
from tests.kit.fake_cluster import FakeCluster
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.recovery.execution.targets import target
from tests.unit.recovery.replicas import log, offline
from tests.unit.recovery.timeline.journals import CLUSTER, elected, step, unknown

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


ORDERS = tuple(TopicPartition("orders", number) for number in range(3))
GIVEN_UP = 3
BEFORE = target(ORDERS[0]).leader_epoch


def written(folder: Path, results: dict[TopicPartition, Any]) -> JournalView:
    """A journal whose plan gives up b3 in each partition, and what became of its elections."""
    with Journal.open(CLUSTER, folder) as journal:
        items = {
            name: {**described(target(name)), "price": "0", "abandons": [GIVEN_UP]}
            for name in ORDERS
        }
        journal.plan("digest", "", items, consents=1)
        journal.consent("3 partitions lose 0 and abandon b3", implied=False)
        if results:
            step(journal, ELECT, results)
    return read(journal.path)


def led(name: TopicPartition, *, epoch: int = BEFORE + 1, **more: Any) -> PartitionState:
    topic_id = target(name).topic_id
    state = offline(log(1), log(2), log(3), topic=name.topic, topic_id=topic_id).state
    fields = {"leader": 1, "isr": (1,), **more}
    return replace(state, partition=name, leader_epoch=epoch, **fields)


def left(
    view: JournalView, *states: PartitionState, ran_at: int = 0, whole: bool = True
) -> dict[int, tuple[TopicPartition, ...]]:
    found = standing(
        list(abandonments_in(view)),
        {state.partition: state for state in states},
        lambda _: ran_at,
        whole=whole,
    )
    return {broker: one.partitions for broker, one in found.items()}


ALL_LED = [led(name) for name in ORDERS]


@pytest.mark.parametrize(
    "result", [elected(), unknown(), None], ids=["elected", "unknown", "killed before the answer"]
)
def test_r27_a_broker_that_an_election_gave_up_is_passed_over_though_nobody_said_so(
    tmp_path: Path, result: Any
) -> None:
    view = written(tmp_path, dict.fromkeys(ORDERS, result))
    assert left(view, *ALL_LED) == {GIVEN_UP: ORDERS}


@pytest.mark.parametrize(
    "state",
    [
        led(ORDERS[0], isr=(1, GIVEN_UP)),
        led(ORDERS[0], epoch=BEFORE + 4, leader=None, isr=(), elr=(GIVEN_UP,)),
        led(ORDERS[0], epoch=BEFORE + 4, leader=None, isr=(), last_known_elr=(GIVEN_UP,)),
        led(ORDERS[0], epoch=BEFORE + 4, leader=GIVEN_UP, isr=(GIVEN_UP,)),
    ],
    ids=["in sync", "eligible", "the last leader", "the leader"],
)
def test_a_broker_that_followed_since_was_cut_already(
    tmp_path: Path, state: PartitionState
) -> None:
    view = written(tmp_path, dict.fromkeys(ORDERS, elected()))
    assert left(view, state, *ALL_LED[1:]) == {}


def test_a_broker_that_was_heard_or_checked_since_is_not_passed_over(tmp_path: Path) -> None:
    view = written(tmp_path, dict.fromkeys(ORDERS, elected()))
    moment = view.entries[-1].at_ms
    assert left(view, *ALL_LED, ran_at=moment - 60_000) == {GIVEN_UP: ORDERS}
    assert left(view, *ALL_LED, ran_at=moment + 1) == {}


def test_who_followed_since_a_later_election_was_cut_in_what_an_earlier_one_passed_it_over(
    tmp_path: Path,
) -> None:
    """Nothing in the metadata of what the earlier one elected shows it: b3 died once more."""
    later = list(abandonments_in(written(tmp_path, dict.fromkeys(ORDERS, elected()))))
    first = Abandonment(TopicPartition("carts", 0), "", GIVEN_UP, 5, later[0].at_ms - 1, "first")
    states = {state.partition: state for state in ALL_LED}
    carts = {first.partition: led(ORDERS[0])}
    returned = {ORDERS[1]: led(ORDERS[1], elr=(GIVEN_UP,))}
    assert standing([first, *later], carts | states | returned, lambda _: 0, whole=True) == {}
    after = replace(first, at_ms=later[0].at_ms + 60_000)
    found = standing([after, *later], carts | states | returned, lambda _: 0, whole=True)
    assert found[GIVEN_UP].partitions == (first.partition,)


def test_a_partition_that_was_deleted_is_left_out_where_all_were_read(tmp_path: Path) -> None:
    view = written(tmp_path, dict.fromkeys(ORDERS, elected()))
    assert left(view, ALL_LED[0]) == {GIVEN_UP: ORDERS[:1]}
    assert left(view, ALL_LED[0], whole=False) == {GIVEN_UP: ORDERS}


def test_only_elections_that_ended_as_agreed_are_agreed_to(tmp_path: Path) -> None:
    view = written(tmp_path, {ORDERS[0]: elected(), ORDERS[1]: unknown(), ORDERS[2]: "failed"})
    found = [(name, epoch, leader) for (_, name, epoch), leader in elections_in(view)]
    assert found == [(ORDERS[0], 6, 1)]


def test_a_log_that_goes_on_where_the_leader_does_not_is_cut_by_it() -> None:
    was = HeardLog(log(3, (0, 100), (1, 125)), 2, offline=True)
    assert cut_by_leader(was, log(1, (0, 100), (3, 180)))
    assert not cut_by_leader(was, log(1, (0, 100), (1, 125), (3, 180)))
    assert not cut_by_leader(HeardLog(log(3), 2, offline=True), log(1, (0, 100)))
