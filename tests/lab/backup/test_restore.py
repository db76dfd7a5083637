"""Topics put back as they were: records, settings, groups; and what a kill leaves."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Position

from breakglass.services.errors import Refused, UsageError
from breakglass.services.guard.journal import Journal, JournalView, list_journals
from breakglass.services.kafka.cluster.settings import read_topic_configs
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.properties import SMALL
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition, log_of
from breakglass.services.pipeline.restore import producing
from breakglass.services.pipeline.restore.groups import SNAPSHOT
from breakglass.services.pipeline.restore.producing import ClusterProgress
from breakglass.services.pipeline.restore.task import PartitionTask
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.recovery.group_reset import MoveResult, carry_out, moves_of
from breakglass.services.recovery.group_standing import read_standing
from breakglass.services.session import Power
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.segment_bytes import OTHER_BYTES
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.kit.clusters import in_main_job
from tests.kit.waiting import wait_until
from tests.lab.asking import transactional
from tests.lab.backup.backups import BackUp
from tests.lab.backup.commands import finish, last_line
from tests.lab.backup.independent import contents
from tests.lab.backup.producing import (
    SECONDS,
    commit,
    committed_offset,
    consumer,
    make,
    next_value,
    numbered,
    produce,
    put,
    shapes,
    transact,
)
from tests.lab.backup.restores import Restore


@in_main_job
def test_a_topic_of_every_shape_comes_back_as_it_was(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic, {"max.message.bytes": "2000000"}, partitions=2)
    produce(whole_broker, topic, shapes())
    writer = transactional(whole_broker, topic)
    for number in range(4):
        transact(writer, topic, numbered(5, start=100 * number), 1, commit=number % 2 == 0)
    back_up.await_decided(topic)
    back_up.topic(topic, max_segment_bytes=200_000)
    done = restore.topic(topic, f"{topic}-back")
    assert done.records == 122
    for partition in (0, 1):
        restored = contents(whole_broker, f"{topic}-back", partition)
        assert restored == contents(whole_broker, topic, partition)
    client = back_up.client
    names = [topic, f"{topic}-back"]
    configs = read_topic_configs(client.sender, names, Deadline.after(SECONDS))
    assert configs[f"{topic}-back"] == configs[topic]


def test_groups_go_on_at_the_right_record(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    """Behind the last record, at one, and in a gap where no record ever was."""
    make(whole_broker, topic)
    writer = transactional(whole_broker, topic)
    for number in range(3):
        transact(writer, topic, numbered(4, start=10 * number))
    committed = {"at-end": 15, "at-record": 6, "in-gap": 4, "at-start": 0}
    for group, offset in committed.items():
        commit(whole_broker, topic, f"{topic}-{group}", offset)
    back_up.await_decided(topic)
    back_up.topic(topic)
    target = f"{topic}-back"
    done = restore(restore.plan(topic, target, groups=True), records_a_transaction=5)
    assert (done.error, done.verified, done.groups_failed) == ("", True, {})
    first = {name: next_value(whole_broker, target, f"{topic}-{name}") for name in committed}
    assert first == {"at-end": None, "at-record": b"v11", "in-gap": b"v10", "at-start": b"v0"}


def test_b6_how_far_an_earlier_attempt_came_is_read_once_it_is_fenced(
    whole_broker: Cluster,
    back_up: BackUp,
    restore: Restore,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It commits as late as it can: right after its successor has read how far it came."""
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(8))
    back_up.topic(topic)
    target = f"{topic}-back"
    plan_of_all = restore.plan(topic, target)
    (plan,) = plan_of_all.topics
    make(whole_broker, target)
    spans, stored = plan.partitions[0].spans, plan.stored[0]
    log = str(tmp_path / "partition-0.jsonl")
    task = PartitionTask(target, 0, spans, stored, "of-a-test", log, 1_000)
    earlier = transactional(whole_broker, task.transactional_id)
    earlier.begin_transaction()
    put(earlier, target, numbered(3))
    reached = [Position(target, 0, 3)]
    with closing(consumer(whole_broker, task.group)) as member:
        earlier.send_offsets_to_transaction(reached, member.consumer_group_metadata(), SECONDS)

    class ThenCommitted(ClusterProgress):
        def reached(self) -> int | None:
            found = super().reached()
            with suppress(KafkaException):
                earlier.commit_transaction(SECONDS)
            return found

    monkeypatch.setattr(producing, "ClusterProgress", ThenCommitted)
    done = producing.produced(Power(back_up.access), plan_of_all.cluster_id, task)
    assert done.error == ""
    assert contents(whole_broker, target) == contents(whole_broker, topic)


def test_b7_nothing_expires_while_old_records_are_put_back(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    """Brokers remove what is too old every few minutes: a short restore may be over before."""
    make(whole_broker, topic, {"retention.ms": "-1"})
    produce(whole_broker, topic, iter([{"value": b"old", "timestamp": 1}] * 5))
    back_up.topic(topic)
    plan = restore.plan(topic, f"{topic}-back", settings={"retention.ms": "3600000"})
    assert plan.topics[0].expired_at_once == 5
    sender, seen = back_up.client.sender, []

    def look() -> bool:
        names = [f"{topic}-back"]
        found = read_topic_configs(sender, names, Deadline.after(SECONDS))[names[0]]
        if isinstance(found, dict):
            seen.append(found)
        return bool(seen)

    # A broker may not know yet of a topic that was just created.
    done = restore(plan, created=lambda: wait_until(look, "the settings of the new topic"))
    assert (done.error, done.verified) == ("", True)
    (during,) = seen
    assert (during["retention.ms"], during["retention.bytes"]) == ("-1", "-1")
    assert during["cleanup.policy"] == "delete"
    configs = read_topic_configs(sender, [f"{topic}-back"], Deadline.after(SECONDS))
    assert configs[f"{topic}-back"] == {**make_settings(), "retention.ms": "3600000"}


def make_settings() -> dict[str, str]:
    """What `make` gives every topic."""
    return {"message.timestamp.after.max.ms": str(2**63 - 1)}


def test_b8_append_times_are_kept_and_the_setting_is_put_back(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic, {"message.timestamp.type": "LogAppendTime"})
    produce(whole_broker, topic, numbered(5))
    back_up.topic(topic)
    done = restore.topic(topic, f"{topic}-back")
    assert done.declared == {"log append time": 5}
    configs = read_topic_configs(back_up.client.sender, [f"{topic}-back"], Deadline.after(SECONDS))
    own = configs[f"{topic}-back"]
    assert isinstance(own, dict)
    assert own["message.timestamp.type"] == "LogAppendTime"


def test_b9_everything_is_kept_but_who_stamped_a_record_and_that_is_declared(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    create = TimestampType.CREATE
    plain = Record(0, create, 5, b"k", None, ((b"", b""), (b"a", None)))
    odd = ((b"a\x00b", b"x"), (b"\xff\xfe", None))
    kept = [
        plain,
        plain._replace(timestamp=0),
        plain._replace(headers=odd),
        plain._replace(timestamp=0, key=None, value=b"", headers=odd),
        plain._replace(timestamp=-5, headers=odd),
        plain._replace(timestamp=-1),
    ]
    changed = [
        Record(0, TimestampType.NONE, None, None, b"v"),
        plain._replace(timestamp_type=TimestampType.LOG_APPEND, timestamp=7),
    ]
    records = [*kept, *changed, *([plain] * 30), *kept]
    # A commit's marker begins a segment of its own, and records of 1970 are past any retention.
    identity = TopicIdentity(topic, partition_count=1, config={"retention.ms": "-1"})
    with TopicWriter(back_up.root, identity) as writer:
        for number, record in enumerate(records):
            writer.partition(0).append(record._replace(offset=7 * number))
        writer.commit()
    done = restore(restore.plan(topic, f"{topic}-back"), records_a_transaction=10)
    assert (done.error, done.verified, done.differences) == ("", True, {})
    assert done.declared == {"no timestamp": 1, "log append time": 1}
    assert done.records == len(records)
    back_up.topic(f"{topic}-back")
    copied = back_up.records(f"{topic}-back")
    expected = [*kept, changed[0]._replace(timestamp_type=create, timestamp=-1)]
    expected += [changed[1]._replace(timestamp_type=create)]
    expected += [*([plain] * 30), *kept]
    assert [record._replace(offset=0) for record in copied] == expected


def test_b36_a_file_that_changes_after_it_was_checked_is_not_called_identical(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(20))
    back_up.topic(topic)
    plan = restore.plan(topic, f"{topic}-back")
    (records,) = back_up.folder(topic).path.glob("*_records")
    records.write_bytes(records.read_bytes().replace(b"v1", b"w1"))
    done = restore(plan)
    assert OTHER_BYTES in done.error
    assert done.verified is not True


def test_a_restore_ends_where_it_is_told_to(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic)
    values = [{"value": b"%d" % number, "timestamp": 1000 + number} for number in range(10)]
    produce(whole_broker, topic, iter(values))
    back_up.topic(topic, max_segment_bytes=200)
    assert restore.plan(topic, "a", until_offset=4).records == 4
    assert restore.plan(topic, "a", until_ms=1006).records == 7
    done = restore.topic(topic, f"{topic}-back", until_ms=1006)
    assert done.records == 7
    assert contents(whole_broker, f"{topic}-back") == contents(whole_broker, topic)[:7]


def test_the_latest_value_of_each_key_is_restored_alone(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(20))
    produce(whole_broker, topic, iter([{"key": b"k3", "value": None}, {"value": b"keyless"}]))
    produce(whole_broker, topic, iter([{"key": b"k5", "value": b"later"}]))
    back_up.topic(topic, max_segment_bytes=300)
    plan = restore.plan(topic, f"{topic}-back", compacted=True)
    assert sorted(plan.topics[0].left_out.values()) == [1, 1, 2]
    done = restore(plan)
    assert (done.error, done.verified, done.records) == ("", True, 19)
    values = [(content.key, content.value) for content in contents(whole_broker, f"{topic}-back")]
    wanted = [(b"k%d" % at, b"v%d" % at) for at in range(20) if at not in (3, 5)]
    assert values == [*wanted, (b"k5", b"later")]


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
