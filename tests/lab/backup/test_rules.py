"""The rules B1 to B30 that were found on live brokers, as far as they are of backing up."""

import json
import logging
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import NewPartitions

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import TimedOut
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.lab.topics import create_topic
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.session import Spark
from breakglass.services.pipeline.source import WantedTopics, read_sources
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.summary import Gap, GapReason
from tests.lab.asking import delete_topic, transactional
from tests.lab.backup.backups import BackUp, once
from tests.lab.backup.commands import finish, last_line
from tests.lab.backup.independent import contents
from tests.lab.backup.producing import (
    FOR_EVER,
    LOG,
    LONGEST_MS,
    SECONDS,
    admin,
    commit,
    committed_bytes,
    delete_before,
    make,
    numbered,
    produce,
    put,
    set_policy,
    transact,
)
from tests.lab.backup.restores import Restore
from tests.lab.backup.watching import killed_once, writers_in

LOG.addHandler(logging.NullHandler())


@pytest.mark.parametrize("stamp", [LONGEST_MS, -(2**62)], ids=["far-future", "far-past"])
def test_b1_timestamps_out_of_sparks_range_are_kept_exactly(
    whole_broker: Cluster, back_up: BackUp, client: ReadClient, topic: str, stamp: int
) -> None:
    make(whole_broker, topic, partitions=2)
    produce(whole_broker, topic, iter([{"key": b"k", "value": b"v", "timestamp": stamp}]))
    produce(whole_broker, topic, numbered(5))
    produce(whole_broker, topic, numbered(5), partition=1)
    back_up.topic(topic)
    (source,) = read_sources(client, WantedTopics((topic,)), Deadline.after(SECONDS))
    log = CommittedLog(client.sender, 1, source.partitions[0].partition)
    truth = [record for batch in log.batches(0, 6) for record in batch.records("truth")]
    assert truth[0].timestamp == stamp
    assert back_up.bytes(topic, 0) == b"".join(map(encode, truth))
    assert back_up.bytes(topic, 1) == committed_bytes(whole_broker, topic, 1)


def test_b2_a_topic_created_anew_while_it_is_copied_is_not_committed(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(5))
    back_up.topic(topic)
    produce(whole_broker, topic, numbered(5))
    before = back_up.manifest(topic)

    def recreate() -> None:
        delete_topic(whole_broker, topic)
        make(whole_broker, topic)
        produce(whole_broker, topic, numbered(50, start=1000))

    (report,) = back_up(topic, tell=once(recreate)).topics
    assert "was deleted or recreated while it was read" in report.error
    assert back_up.manifest(topic) == before
    assert [record.offset for record in back_up.records(topic)] == [0, 1, 2, 3, 4]
    again = back_up.topic(topic)
    assert again.generation == 2
    assert "deleted and recreated" in again.new_generation
    assert again.passed_over
    assert back_up.bytes(f"{topic}~2") == committed_bytes(whole_broker, topic)
    assert back_up.manifest(topic) == before


def test_b27_a_topic_is_restored_as_it_was_before_it_was_deleted_and_created_again(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(10))
    back_up.topic(topic)
    deleted_ms = now_ms()
    delete_topic(whole_broker, topic)
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(3, start=1000))
    report = back_up(topic)
    assert not report.whole
    assert "from offset 10 of partition 0 on" in report.topics[0].new_generation
    words = ("--store", str(back_up.root), "--until-time", str(deleted_ms), "--dry-run")
    code, _, err = finish(whole_broker, "restore", *words, "--map", f"{topic}={topic}-back")
    assert (code, f"--topics {topic} --generation 1" in err) == (3, True)
    plan = restore.plan(topic, f"{topic}-back", until_ms=deleted_ms, generation=1)
    assert (plan.records, len(plan.topics[0].others)) == (10, 1)
    assert restore(plan).complete
    none = restore.plan(topic, f"{topic}-none", until_ms=deleted_ms, generation=2)
    done = restore(none)
    assert (done.verified, done.complete, bool(done.before_all)) == (True, False, True)


def test_b28_files_without_a_manifest_are_continued_only_by_a_log_that_has_each_of_their_records(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    """Such a folder has no topic id: its records alone say whether it is the topic's."""

    def forget(name: str) -> Path:
        for file in (back_up.root / name).glob("breakglass_*"):
            file.unlink()
        (records,) = (back_up.root / name).glob("*_records")
        return records

    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(10))
    back_up.topic(topic)
    forget(topic)
    delete_before(whole_broker, topic, 4)
    produce(whole_broker, topic, numbered(5, start=10))
    report = back_up(topic)
    (partition,) = report.partitions
    assert (partition.compared, partition.records, report.whole) == ("4..9", 5, False)
    (doubt,) = back_up.manifest(topic).partitions[0].unproved
    assert (doubt.start, doubt.end) == (0, 4), "what is equal in the topic is proved"
    records = forget(topic)
    changed = records.read_bytes().replace(b"v7", b"V7")
    records.write_bytes(changed)
    for number, count in ((2, 0), (3, 30), (4, 3), (5, 0)):
        if count:
            forget(f"{topic}~{number - 1}")
            delete_topic(whole_broker, topic)
            make(whole_broker, topic)
            produce(whole_broker, topic, numbered(count, start=1000))
        if number == 5:
            forget(f"{topic}~4")
            produce(whole_broker, topic, numbered(1))
            delete_before(whole_broker, topic, 3)
        again = back_up(topic)
        assert (again.topics[0].generation, again.whole) == (number, False)
        assert back_up.bytes(f"{topic}~{number}") == committed_bytes(whole_broker, topic)
    assert records.read_bytes() == changed


def test_b37_what_was_removed_before_the_first_copy_of_a_later_log_is_lost(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    """The backup knew the topic: a partition that it sees first began at 0 since its last look."""

    def remove(partition: int) -> None:
        produce(whole_broker, topic, numbered(10), partition=partition)
        delete_before(whole_broker, topic, 4, partition)

    make(whole_broker, topic)
    remove(0)
    assert back_up(topic).whole, "nothing says when the records before its first look were removed"
    client = admin(whole_broker)
    client.create_partitions([NewPartitions(topic, 2)])[topic].result(SECONDS)
    remove(1)
    added = back_up(topic)
    assert (added.whole, added.partitions[1].lost) == (False, [Gap(0, 4, GapReason.LOST)])
    delete_topic(whole_broker, topic)
    make(whole_broker, topic)
    remove(0)
    anew = back_up(topic)
    assert (anew.whole, anew.partitions[0].lost) == (False, [Gap(0, 4, GapReason.LOST)])


def test_b3_an_open_transaction_is_left_out_said_and_taken_up_once_it_is_decided(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(10))
    open_one = transactional(whole_broker, topic)
    open_one.begin_transaction()
    put(open_one, topic, numbered(5, start=10))
    produce(whole_broker, topic, numbered(3, start=15))
    report = back_up.topic(topic)
    assert (report.partitions[0].end, report.partitions[0].held_back) == (10, 8)
    open_one.commit_transaction(SECONDS)
    back_up.await_decided(topic)
    assert back_up.topic(topic).partitions[0].records == 8
    assert back_up.bytes(topic) == committed_bytes(whole_broker, topic)


def test_b3_a_log_whose_stable_end_went_back_is_waited_for_and_never_taken_for_read(
    whole_broker: Cluster, client: ReadClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a new leader, here behind a transaction: what was promised is not served yet."""
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(3))
    open_one = transactional(whole_broker, topic)
    open_one.begin_transaction()
    put(open_one, topic, numbered(2, start=3))
    monkeypatch.setattr(patience, "FETCH", 15.0)
    (source,) = read_sources(client, WantedTopics((topic,)), Deadline.after(SECONDS))
    log = CommittedLog(client.sender, 1, source.partitions[0].partition)
    with pytest.raises(TimedOut, match=r"the last stable offset of .* went back to 3"):
        list(log.batches(0, 5))
    monkeypatch.undo()
    batches = log.batches(0, 5)
    assert next(batches).header.next_offset == 3
    open_one.commit_transaction(SECONDS)
    assert [batch.header.next_offset for batch in batches] == [5]


def test_b3_records_deleted_before_they_are_read_are_a_gap(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(10))

    back_up.topic(topic, tell=once(lambda: delete_before(whole_broker, topic, 4)))
    (summary,) = back_up.manifest(topic).partitions
    assert summary.segments[0].gaps == (Gap(0, 4, GapReason.LOST),)
    assert [record.offset for record in back_up.records(topic)] == list(range(4, 10))


def test_b4_a_task_is_tried_again_and_leaves_one_copy(
    whole_broker: Cluster, back_up: BackUp, spark: Spark, topic: str
) -> None:
    create_topic(whole_broker, topic, [[1]], FOR_EVER)
    produce_many(whole_broker, topic, 0, 60_000, pattern=Pattern(value_bytes=1000))
    with killed_once(lambda: writers_in(back_up.root / topic)) as killed:
        report = back_up.topic(topic)
    assert spark.context().master == "local[*,4]"
    assert killed != []
    assert report.partitions[0].records == 60_000
    assert [record.offset for record in back_up.records(topic)] == list(range(60_000))
    assert [name for name in back_up.folder(topic).names() if name.startswith(".")] == []


def test_b5_a_backup_ends_where_the_last_offset_is_a_control_record(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic)
    transact(transactional(whole_broker, topic), topic, numbered(3))
    back_up.await_decided(topic)
    report = back_up.topic(topic)
    assert (report.partitions[0].end, report.partitions[0].records) == (4, 3)
    assert report.partitions[0].missing == {"control": 1}
    assert back_up.topic(topic).partitions[0].start == 4


def test_b11_the_stable_end_is_what_a_committed_reader_is_told(
    whole_broker: Cluster, client: ReadClient, topic: str
) -> None:
    make(whole_broker, topic)
    open_one = transactional(whole_broker, topic)
    produce(whole_broker, topic, numbered(2))
    open_one.begin_transaction()
    put(open_one, topic, numbered(3))
    (source,) = read_sources(client, WantedTopics((topic,)), Deadline.after(SECONDS))
    ends = {}
    for isolation in ("read_committed", "read_uncommitted"):
        settings = {"group.id": "b11", "isolation.level": isolation}
        consumer = Consumer(
            {"bootstrap.servers": whole_broker.bootstrap_servers, **settings}, logger=LOG
        )
        ends[isolation] = consumer.get_watermark_offsets(TopicPartition(topic, 0), SECONDS)[1]
        consumer.close()
    open_one.abort_transaction(SECONDS)
    (partition,) = source.partitions
    assert partition.stable_end == ends["read_committed"] == 2
    assert partition.high_watermark == ends["read_uncommitted"] == 5


def write_transactions(broker: Cluster, topic: str) -> None:
    """Four of five records each, every other one aborted."""
    writer = transactional(broker, topic)
    for number in range(4):
        transact(writer, topic, numbered(5, start=100 * number), commit=number % 2 == 0)


def test_b12_records_of_aborted_transactions_are_left_out(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    """Of a log that is not compacted: the cleaner removes them by itself."""
    make(whole_broker, topic)
    write_transactions(whole_broker, topic)
    back_up.await_decided(topic)
    report = back_up.topic(topic)
    assert back_up.bytes(topic) == committed_bytes(whole_broker, topic)
    assert report.partitions[0].records == 10
    assert report.partitions[0].missing == {"control": 4, "aborted": 10}


def test_b12_committed_aborted_and_compacted_records_are_as_an_independent_client_reads_them(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic, COMPACTED)
    for number in range(5):
        produce(whole_broker, topic, numbered(10, start=number))
    write_transactions(whole_broker, topic)
    back_up.await_decided(topic)
    whole_broker.wait_until(lambda: _rolled_and_compacted(whole_broker, topic), "holes in the log")
    report = back_up.topic(topic)
    assert back_up.bytes(topic) == committed_bytes(whole_broker, topic)
    missing = report.partitions[0].missing
    assert missing.keys() == {"compaction", "control", "aborted"}
    everything = report.partitions[0].records + sum(missing.values())
    assert everything == report.partitions[0].end


@pytest.mark.parametrize(
    ("kept_ms", "policy"),
    [("0", "compact"), ("86400000", "compact"), ("0", "delete")],
    ids=["removed", "kept", "compacted between the runs alone"],
)
def test_b16_a_key_that_was_deleted_between_two_runs_does_not_come_back(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str, kept_ms: str, policy: str
) -> None:
    """Its tombstone is compacted away before the second run, or is backed up."""
    settings = {**COMPACTED, "delete.retention.ms": kept_ms}
    make(whole_broker, topic, {**settings, "cleanup.policy": policy})
    produce(whole_broker, topic, numbered(5))
    commit(whole_broker, topic, f"{topic}-group", 3)
    back_up.topic(topic)
    states = group_history.times(back_up.folder(topic).names())
    set_policy(whole_broker, topic, "compact")
    produce(whole_broker, topic, iter([{"key": b"k3", "value": None}]))

    def deleted() -> bool:
        produce(whole_broker, topic, iter([{"key": b"roll", "value": b""}]))
        found = [content for content in contents(whole_broker, topic) if content.key == b"k3"]
        return [content.value for content in found] == ([] if kept_ms == "0" else [None])

    whole_broker.wait_until(deleted, "k3 to be compacted away")
    set_policy(whole_broker, topic, policy)
    report = back_up.topic(topic)
    assert report.generation == (2 if kept_ms == "0" else 1)
    newest = back_up.folder(Path(report.folder).name)
    assert group_history.times(newest.names()) == states
    assert group_history.newest_offsets(newest, [0])[0] == {f"{topic}-group": 3}
    restore.topic(topic, f"{topic}-back")
    values = {content.key: content.value for content in contents(whole_broker, f"{topic}-back")}
    assert values.get(b"k3") is None
    assert values[b"k4"] == b"v4"


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_b14_records_that_are_lost_before_they_are_copied_end_the_run_with_1_and_are_named(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str, policy: str
) -> None:
    """Also where deletions may be among them, so that the topic is copied again (B20)."""
    make(whole_broker, topic, {"cleanup.policy": policy})
    produce(whole_broker, topic, numbered(10))
    back_up.topic(topic)
    produce(whole_broker, topic, numbered(5, start=10))
    delete_before(whole_broker, topic, 12)
    words = ("--topics", topic, "--store", str(back_up.root), "--json")
    code, out, err = finish(whole_broker, "run", *words)
    assert (code, last_line(out)["whole"], last_line(out)["gaps"]) == (1, False, {"lost": 2})
    assert f"{topic}-0  LOST 10..11" in err
    assert back_up(topic).whole
    code, out, err = finish(whole_broker, "status", "--store", str(back_up.root), "--json")
    newest = json.loads(out)["topics"][-1]
    (partition,) = newest["partitions"]
    assert (newest["generation"], code) == (1 if policy == "delete" else 2, 0)
    assert (partition["lost_offsets"], partition["lost"]) == (["10..11"], 2)
    plan = restore.plan(topic, f"{topic}-back")
    assert plan.topics[0].lost == [f"{topic}-0 10..11"]
    assert restore(plan).lost == [f"{topic}-0 10..11"]


COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1",
}


def _rolled_and_compacted(broker: Cluster, topic: str) -> bool:
    """Whether the cleaner was there; a record rolls the segment that is being written."""
    produce(broker, topic, iter([{"key": b"roll", "value": b""}]))
    truth = committed_bytes(broker, topic)
    return truth.count(b"\x00\x00\x00\x02k9\x00") == 1
