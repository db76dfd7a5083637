"""Forced checkpoints on a broker: messages that come before the coordinator's marker (H1, H3)."""

from collections.abc import Mapping, Sequence
from contextlib import closing

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.kafka.control import RecordAddress, RecordOrigin, stamped
from breakglass.services.checkpoint.kafka.logs import (
    StampedRecord,
    ensure_control,
    read_logs,
    scan_all,
)
from breakglass.services.checkpoint.kafka.owners import read_ids, read_named_groups
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.participant.participant import Guarantee
from breakglass.services.checkpoint.promises import CopySettings, WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import Acknowledge, NotHigher, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level, NumberedPartition
from breakglass.services.errors import Refused
from breakglass.services.kafka.marker_client import MarkerClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.model import TopicPartition
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.audit import audited, held, stamps
from tests.lab.checkpoint.bank import Bank, Books, books, deposit, order
from tests.lab.checkpoint.branch import LOG, SECONDS, Branch, soon
from tests.lab.checkpoint.taking import Taking, cut_of, decided, policies, read


class SlowMarkers(KafkaTopics):
    """Marks the first partition, and the others once a message has forced the checkpoint there."""

    def __init__(self, bank: Branch, taking: Taking, markers: MarkerClient) -> None:
        named = policies(bank)
        wanted = WantedCheckpoint(
            (bank.topic,), named, Level.COORDINATED, how=CopySettings(control_topic=bank.control)
        )
        super().__init__(taking.client, markers, wanted)
        self._bank, self._taking = bank, taking

    def start(self, id: int, partitions: Sequence[NumberedPartition]) -> Mapping[int, Acknowledge]:
        first, *others = partitions
        answers = super().start(id, [first])
        numbers = {other.partition for other in others}
        wait_until(lambda: numbers <= self._forced(id), "a message in each other partition")
        return {**answers, **super().start(id, others)}

    def _forced(self, id: int) -> set[int]:
        seen = _seen(self._bank, self._taking)
        return {record.partition.partition for record in seen if record.stamp.sn >= id}


FORCED = 7
"""A checkpoint that nobody has asked for: a message of others forces it."""


class Tellers(Bank):
    """A bank that saves the states of its accounts, and keeps what it has saved."""

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions, saves=True)
        self.saved: dict[int, bytes] = {}

    def save(self, partition: TopicPartition) -> bytes | None:
        state = super().save(partition)
        assert state is not None
        self.saved[partition.partition] = state
        return state


def test_h03_a_member_comes_to_a_checkpoint_before_it_processes_what_forces_it(
    bank: Branch, taking: Taking
) -> None:
    """Saved and noted is what was before; what the message leads to carries the checkpoint."""
    with taking.power.markers(taking.cluster_id) as markers:
        ensure_control(taking.client, markers.topics, bank.control, soon())
    tellers = Tellers(bank.partitions)
    with bank.at_work(tellers):
        wait_until(lambda: len(tellers.accounts) == bank.partitions, "accounts")
        others = RecordOrigin(RecordAddress("ab" * 16, 0, 0), 0, "others")
        bank.put([(0, order("forcing", 5, 0))], stamped(FORCED, others))
        wait_until(lambda: len(_caused(bank, taking)) > 0, "what the message leads to")
        wait_until(lambda: len(tellers.saved) == 2, "the account that it leads to")
    (caused,) = _caused(bank, taking)
    assert caused.stamp.sn == FORCED
    came = {created.partition: created for created in taking.told().created.values()}
    assert {number: one.state for number, one in came.items()} == tellers.saved
    assert not [part for part in tellers.saved.values() if b"forcing" in part]
    assert came[0].position <= _forcing(bank, taking)
    assert came[caused.partition.partition].position <= caused.offset


def _seen(bank: Branch, taking: Taking) -> list[StampedRecord]:
    logs = read_logs(taking.client, (bank.topic,), soon())
    return list(scan_all(logs, logs.starts(soon()), logs.stable_ends(soon())))


def _caused(bank: Branch, taking: Taking) -> list[StampedRecord]:
    """What the bank has written because of the message."""
    seen = _seen(bank, taking)
    return [
        record for record in seen if record.stamp.cause and record.stamp.cause.group == bank.group
    ]


def _forcing(bank: Branch, taking: Taking) -> int:
    """Where the message lies in the first account."""
    seen = _seen(bank, taking)
    (found,) = (
        record for record in seen if record.stamp.cause and record.stamp.cause.group == "others"
    )
    assert found.partition.partition == 0
    return found.offset


def test_h01_a_message_that_comes_before_the_marker_is_not_in_the_checkpoint(
    bank: Branch, taking: Taking
) -> None:
    with bank.working(1), taking.parts(bank) as (_, finisher):
        bank.order(300)
        with taking.power.markers(taking.cluster_id) as markers:
            assert Coordinator(taking.store, SlowMarkers(bank, taking, markers)).take() == 1
        found = finisher.finish(1)
    assert found.status is Status.COMPLETED
    assert found.started is not None
    positions = cut_of(found).positions
    assert all(positions[one] < found.started.positions[one] for one in range(2, 7))
    content = held(taking.store, 1)
    assert {stamp.sn for log in content.prefixes.values() for stamp in stamps(log)} == {0}
    books = audited(content, bank.group, bank.topic, passes_over=bank.at_least_once)
    assert books == Books(bank.total, (), ())


@pytest.fixture
def other_bank(whole_broker: Cluster, topic: str) -> Branch:
    """With topics of its own."""
    name = f"{topic}-other"
    return Branch(whole_broker, name, Guarantee.EXACTLY_ONCE, 3, f"control-{name}").open()


def wanted(bank: Branch, control: str) -> WantedCheckpoint:
    return WantedCheckpoint(
        (bank.topic,), {}, Level.COORDINATED, how=CopySettings(control_topic=control)
    )


def test_h04_an_id_is_above_those_in_the_logs_whatever_the_control_topic_knows(
    small_bank: Branch, other_bank: Branch, taking: Taking
) -> None:
    bank, other = small_bank, other_bank
    with taking.parts(bank, groups={}) as (coordinator, _):
        assert coordinator.take(7) == 7
    with taking.power.markers(taking.cluster_id) as markers:
        new = BackupStore(f"{taking.store.address}-of-the-other")
        elsewhere = KafkaTopics(taking.client, markers, wanted(other, other.control))
        assert Coordinator(new, elsewhere).take() == 1
        here = KafkaTopics(taking.client, markers, wanted(bank, other.control))
        assert Coordinator(new, here).take(7) == NotHigher(7, 7)
        assert Coordinator(new, here).take() == 8


def test_h04_nothing_that_is_written_after_the_acknowledgement_is_in_it(
    bank: Branch, taking: Taking
) -> None:
    with bank.working(), taking.parts(bank) as (coordinator, finisher):
        bank.order(200)
        assert coordinator.take() == 1
        bank.put([(number, order(f"late.{number}", 1, 3)) for number in range(bank.partitions)])
        bank.order(50)
        finisher.finish(1)
    content = held(taking.store, 1)
    logs = [*content.prefixes.values(), *content.channels.values()]
    assert sum(map(len, logs)) > 200
    assert not [record for log in logs for record in log if b"late" in (record.value or b"")]


def test_h03_a_member_that_is_started_again_knows_the_checkpoint_it_had_come_to(
    bank: Branch, taking: Taking
) -> None:
    """What is in flight carries the id and would bring it again, so nothing is in flight."""
    with bank.working(1):
        bank.order(100)
        taking.take(bank)
    bank.settle()
    assert _committed_ids(bank, taking) == {1}
    with bank.working(1):
        bank.order(20)
    bank.settle()
    assert _committed_ids(bank, taking) == {1}


def test_h11_offsets_are_read_while_a_transaction_holds_others_back(
    bank: Branch, taking: Taking
) -> None:
    bank.settle()
    offsets = [Position(bank.topic, number, 1) for number in range(bank.partitions)]
    consumer = Consumer({**bank.connection, "group.id": bank.group}, logger=LOG)
    with bank.transaction("holding") as producer, closing(consumer) as member:
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), SECONDS)
        standing = read_named_groups(taking.client, [bank.group], _partitions(bank), soon())
    assert standing[bank.group].keys() == set(_partitions(bank))


def _committed_ids(bank: Branch, taking: Taking) -> set[int | None]:
    """The checkpoints that the group has committed beside its offsets."""
    ids = read_ids(taking.client.sender, bank.group, _partitions(bank), soon())
    return {ids.get(partition) for partition in _partitions(bank)}


def _partitions(bank: Branch) -> list[TopicPartition]:
    return [TopicPartition(bank.topic, number) for number in range(bank.partitions)]


OTHERS = RecordOrigin(RecordAddress("ab" * 16, 0, 7), 0, "others")
"""A record of another group's input, which it may process twice."""


@pytest.fixture(params=list(Guarantee))
def savers(request: pytest.FixtureRequest, whole_broker: Cluster, topic: str) -> Branch:
    """Three accounts whose owners save their states; once with each guarantee."""
    return Branch(whole_broker, topic, request.param, 3, f"control-{topic}").open()


def write(bank: Branch, value: bytes, cause: RecordOrigin) -> None:
    """Write into the first account as the output of *cause*."""
    bank.put([(0, value)], stamped(0, cause))


def forget(bank: Branch, taking: Taking, id: int) -> None:
    """Have retention remove all that is before checkpoint *id*."""
    positions = cut_of(read(taking.store, id)).positions
    bank.delete_before({number - 1: at for number, at in positions.items()})


def test_h02_what_another_group_writes_twice_is_taken_once_across_a_restart(
    savers: Branch, taking: Taking
) -> None:
    with savers.at_work(Bank(3, saves=True)):
        write(savers, deposit("others", 5), OTHERS)
        assert taking.take(savers).status is Status.COMPLETED
    write(savers, deposit("others", 5), OTHERS)
    assert books(savers.settle(saves=True)) == Books(savers.total + 5, (), ())


def test_h10_a_state_that_nobody_could_replay_any_more_is_refused(
    savers: Branch, taking: Taking
) -> None:
    with savers.at_work(Bank(3, saves=True)):
        savers.order(30, hops=5)
        taking.take(savers)
        forget(savers, taking, 1)
        with pytest.raises(Refused, match="retention has removed"):
            taking.take(savers, Level.VERIFIED)


def test_h02_after_a_restore_a_state_and_its_records_are_taken_once(
    savers: Branch, taking: Taking
) -> None:
    """With either guarantee, where what is in transit is restored behind the cut."""
    groups = {savers.group: GroupPolicy.EXACTLY_ONCE}
    with savers.at_work(Bank(3, saves=True)):
        write(savers, deposit("others", 5), OTHERS)
        savers.order(60, hops=10)
        assert taking.take(savers).status is Status.COMPLETED
        forget(savers, taking, 1)
        savers.order(60, hops=10)
        with taking.parts(savers, groups=groups) as (coordinator, finisher):
            id = coordinator.take()
            assert isinstance(id, int)
            assert finisher.finish(id).status is Status.COMPLETED
    restored = taking.restore(savers, id, f"{savers.topic}-2")
    restored.order(10, hops=5)
    assert books(restored.settle(saves=True)) == Books(savers.total + 5, (), ())


@pytest.mark.parametrize("killed", ["before it was decided", "while it was copied"])
def test_h02_another_checkpoint_meanwhile_takes_no_state_away(
    savers: Branch, taking: Taking, killed: str
) -> None:
    """Its worker is killed, the next one is taken, and then it is gone on with."""
    groups = {savers.group: GroupPolicy.EXACTLY_ONCE}
    with savers.at_work(Bank(3, saves=True)):
        savers.order(60, hops=10)
        assert taking.take(savers).status is Status.COMPLETED
        forget(savers, taking, 1)
        with taking.parts(savers, groups=groups) as (coordinator, finisher):
            assert coordinator.take() == 2
            if killed == "while it was copied":
                decided(taking, finisher, 2)
            savers.order(60, hops=10)
            assert coordinator.take() == 3
            assert finisher.finish(3).status is Status.COMPLETED
            assert finisher.finish(2).status is Status.COMPLETED
    restored = taking.restore(savers, 2, f"{savers.topic}-2")
    restored.order(10, hops=5)
    assert books(restored.settle(saves=True)) == Books(savers.total, (), ())
