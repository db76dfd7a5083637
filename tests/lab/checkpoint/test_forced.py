"""Forced checkpoints on a broker: messages that come before the coordinator's marker (H1, H3)."""

from collections.abc import Mapping, Sequence

from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.kafka.control import RecordAddress, RecordOrigin, stamped
from breakglass.services.checkpoint.kafka.logs import (
    StampedRecord,
    ensure_control,
    read_logs,
    scan_all,
)
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.promises import CopySettings, WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import Acknowledge, Status
from breakglass.services.checkpoint.store.documents import Level, NumberedPartition
from breakglass.services.kafka.marker_client import MarkerClient
from breakglass.services.model import TopicPartition
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.audit import audited, held, stamps
from tests.lab.checkpoint.bank import Bank, Books, order
from tests.lab.checkpoint.branch import Branch, soon
from tests.lab.checkpoint.taking import Taking, cut_of, policies


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
