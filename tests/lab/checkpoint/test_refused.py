"""What cannot be made consistent has failed, with the reason (H5, H10, H12)."""

import itertools
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from threading import Timer
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.cimpl import NewPartitions

from breakglass.services.checkpoint.coordinator import Coordinator, Finisher
from breakglass.services.checkpoint.kafka.control import (
    Created,
    RecordAddress,
    RecordOrigin,
    marker_headers,
    stamped,
)
from breakglass.services.checkpoint.kafka.evidence import LAST_OFFSETS, read_evidence
from breakglass.services.checkpoint.kafka.logs import (
    ensure_control,
    read_logs,
    settled,
    write_control,
)
from breakglass.services.checkpoint.protocol.lineage import Committing, GroupEvidence, WriterKind
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import BreakglassError, Refused, TimedOut
from breakglass.services.kafka.cluster.group_offsets import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, log_of
from tests.kit.stamps import OUTSIDE
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.bank import nothing
from tests.lab.checkpoint.branch import LOG, SECONDS, Branch, soon
from tests.lab.checkpoint.plain import all_the_while, loop, write
from tests.lab.checkpoint.taking import Taking, cut_of, decided, read, why_failed

by_level = pytest.mark.parametrize("level", [Level.COORDINATED, Level.VERIFIED])


@by_level
def test_h10_transactions_without_headers_are_refused(
    small_bank: Branch, taking: Taking, level: Level
) -> None:
    bank, written = small_bank, list[int]()

    def write() -> None:
        bank.put_torn(3)
        written.append(3)

    def both_grown() -> bool:
        """Whether the accounts that are written to are behind what was acknowledged."""
        started = read(taking.store).started
        assert started is not None
        ends = read_logs(taking.client, (bank.topic,), soon()).stable_ends(soon())
        told = max(started.positions.values())
        return all(end > told + 10 for one, end in ends.items() if one.partition < 2)

    with bank.working(1), taking.parts(bank, level) as (coordinator, finisher):
        bank.order(10)
        assert coordinator.take() == 1
        with all_the_while(write):
            wait_until(lambda: len(written) > 1, "foreign transactions")
            wait_until(both_grown, "records after them")
            with pytest.raises(BreakglassError, match="unverifiable"):
                finisher.finish(1)
    assert read(taking.store).status is Status.FAILED


def taken_and_finished(coordinator: Coordinator, finisher: Finisher) -> None:
    """Take one and decide what is in it; which of the two refuses depends on its level."""
    id = coordinator.take()
    assert isinstance(id, int)
    finisher.finish(id)


@by_level
def test_h10_a_group_that_is_not_named_is_refused_in_a_quiet_moment_too(
    small_bank: Branch, taking: Taking, level: Level
) -> None:
    """Its members do not run, and nothing is under way; once it is deleted, nobody is missing."""
    bank = small_bank
    bank.settle()
    with taking.parts(bank, level, groups={}) as (coordinator, finisher):
        with pytest.raises(Refused, match=f"--group {bank.group}=exactly-once"):
            taken_and_finished(coordinator, finisher)
        assert f"group {bank.group}" in why_failed(taking.store)
        admin = bank.admin()
        for future in admin.delete_consumer_groups([bank.group]).values():
            future.result(SECONDS)
        assert coordinator.take() == 2
        assert finisher.finish(2).status is Status.COMPLETED


def test_h10_a_group_that_commits_plain_offsets_is_a_participant_if_it_has_saved_states(
    small_bank: Branch, taking: Taking
) -> None:
    """As a restored one whose members have not begun yet."""
    bank, group = small_bank, f"restored-{small_bank.topic}"
    bank.commit(group)
    with taking.parts(bank, groups={}) as (coordinator, finisher):
        with pytest.raises(Refused, match=rf"group {group} \(classic\) reads"):
            taken_and_finished(coordinator, finisher)
        # Note a state that group has saved of the first account.
        topic_id = taking.topic_id(bank.topic)
        assert topic_id is not None
        record = Created(group, topic_id, 0, 1, 1, b"a state").record
        with taking.power.markers(taking.cluster_id) as markers:
            ensure_control(taking.client, markers.topics, bank.control, soon())
            write_control(taking.client, markers, bank.control, record, soon())
        with pytest.raises(Refused, match=f"group {group} takes part"):
            taken_and_finished(coordinator, finisher)


def test_h10_a_group_that_writes_into_the_topics_and_reads_others_is_refused(
    small_bank: Branch, taking: Taking
) -> None:
    """It has committed nothing here: its records say that it wrote them."""
    with taking.parts(small_bank, groups={}) as (coordinator, finisher):
        assert coordinator.take() == 1
        place = RecordAddress(taking.topic_id(small_bank.topic) or "", 0, 0)
        small_bank.put([(1, nothing())], stamped(1, RecordOrigin(place, 0, "others")))
        with pytest.raises(Refused, match="--group"):
            finisher.finish(1)


def test_h05_a_group_that_does_not_come_to_the_cut_is_named(
    small_bank: Branch, taking: Taking
) -> None:
    small_bank.settle()
    small_bank.order(3)
    with pytest.raises(BreakglassError, match="not drained in time"):
        replace(taking, drain_seconds=1.0).take(small_bank)
    reason = why_failed(taking.store)
    assert f"group {small_bank.group} lags: {small_bank.topic}-0 at" in reason


def test_h10_added_partitions_are_refused(small_bank: Branch, taking: Taking) -> None:
    topic = small_bank.topic
    with taking.parts(small_bank) as (coordinator, finisher):
        assert coordinator.take() == 1
        admin = small_bank.admin()
        for future in admin.create_partitions([NewPartitions(topic, 4)]).values():
            future.result(SECONDS)
        wait_until(lambda: len(taking.client.partitions((topic,), soon())) == 4, "the fourth")
        with pytest.raises(BreakglassError, match="partitions were added"):
            finisher.finish(1)
    assert read(taking.store).status is Status.FAILED


@pytest.mark.parametrize("before", ["it is decided", "it is copied"])
def test_h12_topics_that_were_created_anew_are_of_another_timeline(
    small_bank: Branch, taking: Taking, before: str
) -> None:
    with taking.parts(small_bank, groups={}) as (coordinator, finisher):
        assert coordinator.take() == 1
        if before == "it is copied":
            decided(taking, finisher)
        small_bank.delete()
        small_bank.open()
        with pytest.raises(BreakglassError, match="created again"):
            finisher.finish(1)
    assert read(taking.store).status is Status.FAILED


def test_h05_logs_are_read_to_their_end_once_no_transaction_is_open_before_it(
    small_bank: Branch, taking: Taking
) -> None:
    """A transaction's offsets show before its outputs: up to the stable end some are missed."""
    late: list[int | None] = []
    with small_bank.transaction("late") as producer:
        producer.produce(
            small_bank.topic,
            b"{}",
            partition=0,
            headers=list(OUTSIDE),
            on_delivery=lambda _, message: late.append(message.offset()),
        )
        producer.flush(SECONDS)
        with pytest.raises(TimedOut, match=rf"{small_bank.topic}-0 "):
            settled(taking.client, (small_bank.topic,), Deadline.after(1))
        producer.commit_transaction(SECONDS)
    _, ends = settled(taking.client, (small_bank.topic,), soon())
    assert late[0] is not None
    assert ends[TopicPartition(small_bank.topic, 0)] > late[0]


def test_h10_retention_past_what_a_group_needs_while_it_is_copied_fails_that_partition(
    settled_bank: Branch, taking: Taking
) -> None:
    """Of the first account the record at the cut goes, too; of the second all that is before it."""
    bank = settled_bank
    with taking.parts(bank) as (coordinator, finisher):
        assert coordinator.take() == 1
        cut = decided(taking, finisher)
        bank.delete_before({0: cut.positions[1] + 1, 1: cut.positions[2]})
        found = finisher.finish(1)
    statuses = [partition.status for partition in found.partitions]
    assert statuses == [Status.FAILED, Status.COMPLETED, Status.COMPLETED]
    assert f"{bank.topic}-0" in (found.partitions[0].failure or "")


consistent = pytest.mark.parametrize("level", [Level.COORDINATED, Level.VERIFIED])


def take(
    topic: Branch,
    taking: Taking,
    level: Level,
    groups: Mapping[str, GroupPolicy] | None = None,
    external: tuple[str, ...] = (),
) -> StoredCheckpoint:
    with taking.parts(topic, level, groups or {}, external=external) as (coordinator, finisher):
        id = coordinator.take()
        assert isinstance(id, int)
        return finisher.finish(id)


def offsets(found: StoredCheckpoint) -> dict[str, dict[int, int]]:
    assert found.status is Status.COMPLETED
    return {name: dict(group.offsets) for name, group in cut_of(found).groups.items()}


def groups_on(topic: Branch, client: ReadClient) -> tuple[GroupEvidence, ...]:
    return read_evidence(client, (topic.topic,), topic.control, soon()).groups


@consistent
def test_h10_records_without_ids_are_refused_though_nothing_is_written_at_that_time(
    plain: Branch, taking: Taking, level: Level
) -> None:
    with pytest.raises(Refused, match="writer: idempotent"):
        take(plain, taking, level)
    assert f"{plain.topic}-" in why_failed(taking.store)


def test_h10_markers_hide_no_record_before_them(plain: Branch, client: ReadClient) -> None:
    """Each checkpoint that was refused leaves one more of them."""
    count = 2 * LAST_OFFSETS * plain.partitions
    markers = [(number % plain.partitions, b"") for number in range(count)]
    plain.put(markers, headers=marker_headers(1))
    (found,) = read_evidence(client, (plain.topic,), plain.control, soon()).topics
    assert not found.stamped
    assert found.writers == (WriterKind.IDEMPOTENT,)


@consistent
def test_h10_an_ordinary_group_that_lags_is_refused_until_it_is_saved_or_declared(
    plain: Branch, taking: Taking, level: Level
) -> None:
    external, group = (plain.topic,), f"lagging-{plain.topic}"
    plain.commit(group)
    with pytest.raises(Refused, match=f"--group {group}=reader"):
        take(plain, taking, level, external=external)
    saved = take(plain, taking, level, {group: GroupPolicy.READER}, external)
    assert offsets(saved) == {group: {1: 1}}
    declared = take(plain, taking, level, {group: GroupPolicy.LEFT_OUT}, external)
    assert offsets(declared) == {}


@consistent
def test_h10_records_of_an_external_topic_have_no_cause_inside(
    plain: Branch, taking: Taking, level: Level
) -> None:
    """Also those that are written while it is taken."""
    with all_the_while(lambda: write(plain, 2)):
        found = take(plain, taking, level, external=(plain.topic,))
    assert found.status is Status.COMPLETED


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_h10_a_group_that_has_committed_nothing_is_on_the_topics_of_its_members(
    plain: Branch, client: ReadClient, protocol: str
) -> None:
    group = f"{protocol}-of-{plain.topic}"
    settings: dict[str, Any] = {"group.id": group, "group.protocol": protocol}
    settings |= {"enable.auto.commit": False}
    with closing(Consumer({**plain.connection, **settings}, logger=LOG)) as member:
        member.subscribe([plain.topic])

        def assigned() -> bool:
            member.poll(0.1)
            return len(member.assignment()) == plain.partitions

        wait_until(assigned, "an assignment")
        (found,) = groups_on(plain, client)
    assert (found.name, found.kind, found.reads) == (group, protocol, (plain.topic,))
    assert found.commits is Committing.UNKNOWN


def test_how_a_group_commits_is_read_off_its_last_commits(
    plain: Branch, client: ReadClient
) -> None:
    # The hash code of the second is negative: the sign decides on the partition of its offsets.
    for group in (f"plain-{plain.topic}", "billing"):
        plain.commit(group)
    looped = f"looped-{plain.topic}"
    loop(plain, looped)
    found = {group.name: group for group in groups_on(plain, client)}
    assert found[f"plain-{plain.topic}"].commits is Committing.PLAIN
    assert found["billing"].commits is Committing.PLAIN
    assert found[looped].commits is Committing.TRANSACTIONAL
    assert found[looped].writes == (plain.topic,)
    (evidence,) = read_evidence(client, (plain.topic,), plain.control, soon()).topics
    assert WriterKind.TRANSACTIONAL in evidence.writers


def test_the_open_transaction_of_another_group_is_waited_for(
    plain: Branch, client: ReadClient
) -> None:
    """Both groups commit to one partition, whose stable end is before the open transaction."""
    plain.commit(f"plain-{plain.topic}")
    looped, count = f"looped-{plain.topic}", len(client.partitions((OFFSETS_TOPIC,), soon()))
    names = (f"open-{number}-{plain.topic}" for number in itertools.count())
    place = log_of(looped, OFFSETS_TOPIC, count)
    other = next(name for name in names if log_of(name, OFFSETS_TOPIC, count) == place)
    consumer = Consumer({**plain.connection, "group.id": other}, logger=LOG)
    with plain.transaction(other) as producer, closing(consumer) as member:
        place_of_it = [Position(plain.topic, 1, 1)]
        producer.send_offsets_to_transaction(place_of_it, member.consumer_group_metadata(), SECONDS)
        loop(plain, looped)
        ending = Timer(1.0, producer.abort_transaction)
        ending.start()
        found = {group.name: group.commits for group in groups_on(plain, client)}
        ending.join()
    assert found[looped] is Committing.TRANSACTIONAL
