"""Groups of a restored topic: what they get, who is refused, and how it is taken back."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from breakglass.services.errors import Refused, UsageError
from breakglass.services.guard.journal import Journal, JournalView, list_journals
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.properties import SMALL
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition, log_of
from breakglass.services.pipeline.restore.groups import SNAPSHOT
from breakglass.services.recovery.group_reset import MoveResult, carry_out, moves_of
from breakglass.services.recovery.group_standing import read_standing
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.folder import LocalFolder
from tests.lab.backup.backups import BackUp
from tests.lab.backup.commands import finish, last_line
from tests.lab.backup.producing import (
    SECONDS,
    commit,
    committed_offset,
    consumer,
    make,
    next_value,
    numbered,
    produce,
)
from tests.lab.backup.restores import Restore


@contextmanager
def running(broker: Cluster, topic: str, group: str) -> Iterator[None]:
    """A consumer of *group* that has joined it."""
    with closing(consumer(broker, group)) as member:
        member.subscribe([topic])
        assert member.poll(SECONDS) is not None
        yield


def test_a_group_with_members_is_refused_before_anything_is_made(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(3))
    group, target = f"{topic}-group", f"{topic}-back"
    commit(whole_broker, topic, group, 2)
    back_up.topic(topic)
    plan = restore.plan(topic, target, groups=True)
    with running(whole_broker, topic, group):
        with pytest.raises(Refused, match=f"consumers of {group} are running"):
            restore.plan(topic, target, groups=True)
        with pytest.raises(Refused, match=f"consumers of {group} are running"):
            restore(plan)
    assert not restore.exists(target)
    assert restore(plan).groups_set == {group: {0: 2}}


def test_groups_of_empty_partitions_stand_at_their_end(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    """Else they would go where auto.offset.reset says, and skip what is written meanwhile."""
    make(whole_broker, topic, partitions=2)
    produce(whole_broker, topic, numbered(3))
    group, target = f"{topic}-group", f"{topic}-back"
    commit(whole_broker, topic, group, 9, partition=1)
    back_up.topic(topic)
    assert restore(restore.plan(topic, target, groups=True)).groups_set == {group: {1: 0}}


def test_groups_get_the_offsets_that_they_had_at_a_time(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(5))
    group, target = f"{topic}-group", f"{topic}-back"
    for offset in (1, 4):
        commit(whole_broker, topic, group, offset)
        back_up.topic(topic)
    first, second = group_history.times(back_up.folder(topic).names())[-2:]
    with pytest.raises(UsageError, match="or before"):
        restore.plan(topic, target, groups=True, groups_at_ms=1)
    for moment, offset in ((second, 4), (first, 1), (second - 1, 1)):
        plan = restore.plan(topic, target, groups=True, groups_at_ms=moment)
        assert plan.topics[0].groups == {0: {group: offset}}


def test_what_a_restore_did_to_groups_can_be_taken_back(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(5))
    target = f"{topic}-back"
    moved, fresh, gone_on = (f"{topic}-{name}" for name in ("moved", "fresh", "gone-on"))
    for group in (moved, fresh, gone_on):
        commit(whole_broker, topic, group, 3)
    back_up.topic(topic)
    make(whole_broker, target)
    commit(whole_broker, target, moved, 1)
    plan = restore.plan(topic, target, groups=True)
    assert set(restore(plan).groups_set) == {moved, fresh, gone_on}
    commit(whole_broker, target, gone_on, 5)

    (view,) = list_journals(plan.cluster_id, restore.state)
    assert isinstance(view, JournalView)
    (before,) = [entry.payload for entry in view.entries if entry.payload.get("text") == SNAPSHOT]
    assert before["groups"] == {moved: {f"{target}-0": 1}, fresh: {}, gone_on: {}}

    client = back_up.client
    moves = [move.back for move in moves_of(view)]
    stand = read_standing(client, [1], {move.partition for move in moves}, restore.deadline)
    with (
        Journal.open(plan.cluster_id, restore.state) as journal,
        restore.power.groups(plan.cluster_id) as groups,
    ):
        done = carry_out(groups, client, journal, moves, stand.coordinators, SECONDS)
    assert {offset.move.group: offset.result for offset in done} == {
        moved: MoveResult.MOVED,
        fresh: MoveResult.MOVED,
        gone_on: MoveResult.REFUSED,
    }
    nowhere = -1001
    stands = {
        name: committed_offset(whole_broker, target, name) for name in (moved, fresh, gone_on)
    }
    assert stands == {moved: 1, fresh: nowhere, gone_on: 5}
    assert next_value(whole_broker, target, moved) == b"v1"


def test_b17_a_group_whose_coordinator_is_away_keeps_its_offset_in_the_backup_and_is_named(
    tmp_path: Path,
) -> None:
    quick = {"broker.session.timeout.ms": "4000"}
    with Cluster.up(tmp_path / "lab", brokers=2, overrides=quick, tethered=True) as cluster:
        count = int(SMALL["offsets.topic.num.partitions"])
        create_topic(cluster, "__consumer_offsets", [(2,), *[(1,)] * (count - 1)])
        names = [f"g{number}" for number in range(50)]
        offline = TopicPartition("__consumer_offsets", 0)
        away = next(name for name in names if log_of(name, offline.topic, count) == offline)
        there = next(name for name in names if log_of(name, offline.topic, count) != offline)
        make(cluster, "orders")
        produce(cluster, "orders", numbered(9))
        for group, offset in ((away, 3), (there, 4)):
            commit(cluster, "orders", group, offset)
        words = ("run", "--topics", "orders", "--store", str(tmp_path / "store"), "--json")
        assert finish(cluster, *words)[0] == 0
        cluster.broker(2).kill()
        cluster.wait_fenced(2)
        commit(cluster, "orders", there, 7)
        code, out, err = finish(cluster, *words)
        told = last_line(out)
        assert (code, told["whole"], told["topics"][0]["groups_not_read"]) == (1, False, [away])
        assert away in err

        # A first run has no earlier offsets to keep: every later reader says whose are missing.
        store = ("--store", str(tmp_path / "first"))
        assert finish(cluster, "run", "--topics", "orders", *store)[0] == 1
        code, out, err = finish(cluster, "verify", *store, "--json")
        (lack,) = last_line(out)["topics"][0]["files"]["groups_lacking"]
        assert (code, str(offline) in lack) == (1, True)
        code, out, err = finish(cluster, "status", *store, "--json")
        assert last_line(out)["topics"][0]["groups_lacking"] == [lack]
        restoring = ("restore", "--groups", "--dry-run", "--map", "orders=back")
        code, out, err = finish(cluster, *restoring, *store)
        assert (code, lack in out) == (0, True)
        # The other store has offsets of the group that has no coordinator.
        code, out, err = finish(cluster, *restoring, "--store", str(tmp_path / "store"))
        assert (code, str(offline) in err) == (3, True), err
    folder = LocalFolder(tmp_path / "store" / "orders")
    assert group_history.newest_offsets(folder, [0]) == {0: {away: 3, there: 7}}
    state = group_history.newest_state(folder)
    assert state is not None
    assert state.not_read == (away,)
