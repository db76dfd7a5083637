"""Forced checkpoints on a real broker: messages that come before the coordinator's marker (H1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.checkpoint.coordinator import Coordinator
from services.checkpoint.kafka.log_ends import read_logs
from services.checkpoint.kafka.scanning import scan_all
from services.checkpoint.kafka.topics import KafkaTopics, Wanted
from services.checkpoint.participant.application import Guarantee
from services.checkpoint.protocol.participant import Acknowledge
from services.checkpoint.protocol.values import Status
from services.checkpoint.store.documents import Level, Policy, Subject
from services.kafka.marker_client import MarkerClient
from services.kafka.wire.deadline import Deadline
from tests.lab.checkpoint.audit import audited, held, stamps
from tests.lab.checkpoint.bank import Books
from tests.lab.checkpoint.branch import SECONDS, Branch
from tests.lab.checkpoint.taking import Taking
from tests.waiting import wait_until


class SlowMarkers(KafkaTopics):
    """Marks the first partition, and the others once a message has forced the checkpoint there."""

    def __init__(self, bank: Branch, taking: Taking, markers: MarkerClient) -> None:
        policies = {bank.group: Policy(bank.guarantee.value)}
        wanted = Wanted(Level.COORDINATED, (bank.topic,), policies, bank.control)
        super().__init__(taking.client, markers, wanted)
        self._bank, self._taking = bank, taking

    def start(self, id: int, partitions: Sequence[Subject]) -> Mapping[int, Acknowledge]:
        first, *others = partitions
        answers = super().start(id, [first])
        numbers = {one.partition for one in others}
        wait_until(lambda: numbers <= self._forced(id), "a message in each other partition", 120)
        return {**answers, **super().start(id, others)}

    def _forced(self, id: int) -> set[int]:
        soon = Deadline.after(SECONDS)
        logs = read_logs(self._taking.client, (self._bank.topic,), soon)
        seen = scan_all(logs, logs.starts(soon), logs.stable_ends(soon))
        return {one.partition.partition for one in seen if one.stamp.sn >= id}


def test_h01_a_message_that_comes_before_the_marker_is_not_in_the_checkpoint(
    bank: Branch, taking: Taking
) -> None:
    with bank.working(1), taking.parts(bank) as (_, finisher):
        bank.order(300)
        with taking.power.markers(taking.cluster_id) as markers:
            assert Coordinator(taking.store, SlowMarkers(bank, taking, markers)).take() == 1
        found = finisher.finish(1)
    assert found.status is Status.COMPLETED
    assert found.cut is not None
    assert found.started is not None
    behind = [one for one in range(2, 7) if found.cut.positions[one] < found.started.positions[one]]
    assert behind == [2, 3, 4, 5, 6]
    content = held(taking.store, 1)
    assert {one.sn for log in content.prefixes.values() for one in stamps(log)} == {0}
    least_once = bank.guarantee is Guarantee.AT_LEAST_ONCE
    books = audited(content, bank.group, bank.topic, passes_over=least_once)
    assert books == Books(bank.total, (), ())
