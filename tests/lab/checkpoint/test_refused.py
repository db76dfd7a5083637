"""What cannot be made consistent has failed, with the reason (H5, H10, H12)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread

import pytest

from breakglass.services.checkpoint.kafka.control import Created
from breakglass.services.checkpoint.kafka.control_log import write_control
from breakglass.services.checkpoint.kafka.log_ends import read_logs, settled
from breakglass.services.checkpoint.kafka.stamps import (
    RecordAddress,
    RecordOrigin,
    stamped,
)
from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.errors import BreakglassError, Refused, TimedOut
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.model import TopicPartition
from tests.kit.commits import commit_offsets
from tests.kit.stamps import OUTSIDE
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.audit import held
from tests.lab.checkpoint.bank import nothing
from tests.lab.checkpoint.branch import LOG, SECONDS, Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.taking import Taking, decided

TEARING_SECONDS = 120.0
"""Within which a vector is to tear a transaction: by how quick brokers are, most do, or few."""
MARKED = (Level.COORDINATED, Level.VERIFIED)


@pytest.fixture
def bank(broker: Cluster, request: pytest.FixtureRequest) -> Branch:
    """Three accounts, and nobody at work."""
    name = f"refused-{abs(hash(request.node.name)) % 10**8}"
    return Branch(broker, name, Guarantee.EXACTLY_ONCE, 3, f"control-{name}").open()


def why_failed(taking: Taking, id: int = 1) -> str:
    found = taking.store.read(id)
    assert found is not None
    assert found.status is Status.FAILED
    assert found.failed is not None
    return found.failed.reason


@contextmanager
def torn(bank: Branch) -> Iterator[list[int]]:
    """Somebody writes transactions without headers all the while; each time, how many it were."""
    stop = Event()
    written: list[int] = []

    def write() -> None:
        while not stop.is_set():
            bank.put_torn(3)
            written.append(3)

    writer = Thread(target=write, daemon=True)
    writer.start()
    try:
        yield written
    finally:
        stop.set()
        writer.join(SECONDS)


@pytest.mark.parametrize("level", MARKED)
def test_h10_transactions_without_headers_are_refused(
    bank: Branch, taking: Taking, level: Level
) -> None:
    parts = taking.parts(bank, level)
    with bank.working(1), torn(bank) as written, parts as (coordinator, finisher):
        bank.order(10)
        assert coordinator.take() == 1
        before = len(written)
        wait_until(lambda: len(written) > before + 1, "foreign transactions")
        wait_until(lambda: _grown(bank, _behind(taking)), "records behind them")
        with pytest.raises(BreakglassError, match="unverifiable"):
            finisher.finish(1)
    assert "says nothing of what led to it" in why_failed(taking)


@pytest.mark.slow
@pytest.mark.timeout(2 * TEARING_SECONDS)
def test_h10_a_vector_tears_transactions_without_headers(bank: Branch, taking: Taking) -> None:
    """Each transaction writes one record into the first two accounts."""
    counts = []
    until = time.monotonic() + TEARING_SECONDS
    with torn(bank), taking.parts(bank, Level.VECTOR, groups={}) as (coordinator, finisher):
        while time.monotonic() < until:
            id = coordinator.take()
            assert isinstance(id, int)
            assert finisher.finish(id).status is Status.COMPLETED
            content = held(taking.store, id).prefixes
            counts.append((len(content[0]), len(content[1])))
            if counts[-1][0] != counts[-1][1]:
                return
    pytest.fail(f"no transaction was torn: {counts}")


def _behind(taking: Taking) -> int:
    """Some offsets behind everything that was told when checkpoint 1 was acknowledged."""
    found = taking.store.read(1)
    assert found is not None
    assert found.started is not None
    return max(found.started.positions.values()) + 10


def _grown(bank: Branch, to: int) -> bool:
    with bank.reading() as client:
        deadline = Deadline.after(SECONDS)
        ends = read_logs(client, (bank.topic,), deadline).stable_ends(deadline)
        return min(end for one, end in ends.items() if one.partition < 2) > to


@pytest.mark.parametrize("level", MARKED)
def test_h10_a_group_that_is_not_named_is_refused_in_a_quiet_moment_too(
    bank: Branch, taking: Taking, level: Level
) -> None:
    """Its members do not run, and nothing is under way; once it is deleted, nobody is missing."""
    bank.settle()
    with taking.parts(bank, level, groups={}) as (coordinator, finisher):
        assert coordinator.take() == 1
        with pytest.raises(Refused, match=f"add --group {bank.group}=exactly-once"):
            finisher.finish(1)
        assert f"group {bank.group} takes part in checkpoints" in why_failed(taking)
        delete_group(bank)
        assert coordinator.take() == 2
        assert finisher.finish(2).status is Status.COMPLETED


def test_h10_a_group_that_commits_plain_offsets_is_a_participant_if_it_has_saved_states(
    bank: Branch, taking: Taking
) -> None:
    """As a restored one whose members have not begun yet."""
    group = f"restored-{bank.topic}"
    commit(bank, group)
    with taking.parts(bank, groups={}) as (coordinator, finisher):
        assert coordinator.take() == 1
        with pytest.raises(Refused, match=rf"group {group} \(classic\) reads"):
            finisher.finish(1)
        note(bank, taking, group)
        assert coordinator.take() == 2
        with pytest.raises(Refused, match=f"group {group} takes part"):
            finisher.finish(2)


def commit(bank: Branch, group: str) -> None:
    """Commit an offset for *group*, with nothing beside it."""
    from confluent_kafka import Consumer, TopicPartition

    with closing(Consumer({**bank.connection, "group.id": group}, logger=LOG)) as member:
        commit_offsets(member, [TopicPartition(bank.topic, 0, 1)])


def note(bank: Branch, taking: Taking, group: str) -> None:
    """Note a state that *group* has saved of the first account."""
    (state, *_) = taking.client.partitions((bank.topic,), _soon())
    record = Created(group, state.topic_id.hex, 0, 1, 1, b"a state").record
    with taking.power.markers(taking.cluster_id) as markers:
        write_control(taking.client, markers, bank.control, record, _soon())


def test_h10_the_command_says_how_to_name_a_group_that_was_left_out(
    bank: Branch, program: Program
) -> None:
    bank.settle()
    of_topic = ("--topics", bank.topic, "--control-topic", bank.control)
    phrase = f"write {bank.partitions} markers"
    taken = program("take", *of_topic, "--write", "--consent", phrase)
    assert taken.code == 3
    assert f"add --group {bank.group}=exactly-once, or =at-least-once" in taken.err


def delete_group(bank: Branch) -> None:
    """Delete what the bank's group has committed, as for a group that is of the past."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(bank.connection, logger=LOG)
    for future in admin.delete_consumer_groups([bank.group]).values():
        future.result(SECONDS)


def test_h10_a_group_that_writes_into_the_topics_and_reads_others_is_refused(
    bank: Branch, taking: Taking
) -> None:
    """It has committed nothing here: its records say that it wrote them."""
    with taking.parts(bank, groups={}) as (coordinator, finisher):
        assert coordinator.take() == 1
        (state, *_) = taking.client.partitions((bank.topic,), _soon())
        others = RecordOrigin(RecordAddress(state.topic_id.hex, 0, 0), 0, "others")
        bank.put([(1, nothing())], stamped(1, others))
        with pytest.raises(Refused, match="not in the checkpoint: name it with --group"):
            finisher.finish(1)


def test_h05_a_group_that_does_not_come_to_the_cut_is_named(bank: Branch, taking: Taking) -> None:
    bank.settle()
    bank.order(3)
    quick = Taking(taking.client, taking.power, taking.store, taking.spark, drain_seconds=1.0)
    with pytest.raises(BreakglassError, match=r"not drained in time: group \S+ lags"):
        quick.take(bank)
    assert f"group {bank.group} lags: {bank.topic}-0 at" in why_failed(taking)


def test_h10_added_partitions_are_refused(bank: Branch, taking: Taking) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewPartitions

    with taking.parts(bank) as (coordinator, finisher):
        assert coordinator.take() == 1
        admin = AdminClient(bank.connection, logger=LOG)
        for future in admin.create_partitions([NewPartitions(bank.topic, 4)]).values():
            future.result(SECONDS)
        wait_until(lambda: len(taking.client.partitions((bank.topic,), _soon())) == 4, "the fourth")
        with pytest.raises(BreakglassError, match="partitions were added"):
            finisher.finish(1)
    assert "partitions were added" in why_failed(taking)


def _soon() -> Deadline:
    return Deadline.after(SECONDS)


@pytest.mark.parametrize("before", ["it is decided", "it is copied"])
def test_h12_topics_that_were_created_anew_are_of_another_timeline(
    bank: Branch, taking: Taking, before: str
) -> None:
    from confluent_kafka.admin import AdminClient

    with taking.parts(bank, groups={}) as (coordinator, finisher):
        assert coordinator.take() == 1
        if before == "it is copied":
            decided(taking, finisher)
        admin = AdminClient(bank.connection, logger=LOG)
        for future in admin.delete_topics([bank.topic]).values():
            future.result(SECONDS)
        wait_until(lambda: not taking.client.partitions((bank.topic,), _soon()), "it to go")
        bank.open()
        with pytest.raises(BreakglassError, match="created again"):
            finisher.finish(1)
    assert "created again" in why_failed(taking)


def test_h10_an_open_transaction_is_waited_for_and_then_refused(
    bank: Branch, taking: Taking
) -> None:
    from confluent_kafka import Producer

    settings = {"transactional.id": f"open-{bank.topic}", "transaction.timeout.ms": 60_000}
    producer = Producer({**bank.connection, **settings}, logger=LOG)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(bank.topic, b"{}", partition=0, headers=list(OUTSIDE))
    producer.flush(SECONDS)
    quick = Taking(taking.client, taking.power, taking.store, taking.spark, drain_seconds=2.0)
    try:
        with pytest.raises(BreakglassError, match="a transaction stays open"):
            quick.take(bank, Level.VERIFIED)
    finally:
        producer.abort_transaction(SECONDS)
    assert "a transaction stays open" in why_failed(taking)


def test_h05_logs_are_read_to_their_end_once_no_transaction_is_open_before_it(
    bank: Branch, taking: Taking
) -> None:
    """A transaction's offsets show before its outputs: up to the stable end some are missed."""
    from confluent_kafka import Producer

    settings = {"transactional.id": f"late-{bank.topic}", "transaction.timeout.ms": 60_000}
    producer = Producer({**bank.connection, **settings}, logger=LOG)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    late: list[int | None] = []
    producer.produce(
        bank.topic,
        b"{}",
        partition=0,
        headers=list(OUTSIDE),
        on_delivery=lambda _, message: late.append(message.offset()),
    )
    producer.flush(SECONDS)
    try:
        with pytest.raises(TimedOut, match=r"a transaction stays open in .*-0 "):
            settled(taking.client, (bank.topic,), Deadline.after(1))
    finally:
        producer.commit_transaction(SECONDS)
    _, ends = settled(taking.client, (bank.topic,), Deadline.after(SECONDS))
    assert late[0] is not None
    assert ends[TopicPartition(bank.topic, 0)] > late[0]


def test_h10_retention_past_what_a_group_needs_while_it_is_copied_fails_that_partition(
    bank: Branch, taking: Taking
) -> None:
    """Of the first account the record at the cut goes, too; of the second all that is before it."""
    bank.order(20, hops=3)
    bank.settle()
    with taking.parts(bank) as (coordinator, finisher):
        assert coordinator.take() == 1
        cut = decided(taking, finisher)
        bank.delete_before({0: cut.positions[1] + 1, 1: cut.positions[2]})
        found = finisher.finish(1)
    assert [partition.status for partition in found.partitions] == [
        Status.FAILED,
        Status.COMPLETED,
        Status.COMPLETED,
    ]
    reason = found.partitions[0].failure or ""
    assert f"retention has removed what {bank.topic}-0 held before" in reason
    assert f"the checkpoint needs it from {cut.positions[1]} on" in reason
