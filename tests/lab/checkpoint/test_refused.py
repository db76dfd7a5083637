"""What cannot be made consistent has failed, with the reason (H5, H10, H12)."""

from dataclasses import replace

import pytest
from confluent_kafka.cimpl import NewPartitions

from breakglass.services.checkpoint.coordinator import Coordinator, Finisher
from breakglass.services.checkpoint.kafka.control import (
    Created,
    RecordAddress,
    RecordOrigin,
    stamped,
)
from breakglass.services.checkpoint.kafka.logs import (
    ensure_control,
    read_logs,
    settled,
    write_control,
)
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.errors import BreakglassError, Refused, TimedOut
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from tests.kit.stamps import OUTSIDE
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.bank import nothing
from tests.lab.checkpoint.branch import SECONDS, Branch, soon
from tests.lab.checkpoint.plain import all_the_while
from tests.lab.checkpoint.taking import Taking, decided, read, why_failed

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
