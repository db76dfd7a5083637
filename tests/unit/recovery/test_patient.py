"""What a program that elects by itself waits for: a fenced broker, while the duration lasts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import pytest

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.patient import PatientLook, judge_patiently
from breakglass.services.recovery.triage import Triage, judge
from breakglass.services.snapshot import ClusterSnapshot
from tests.kit.clock import Clock
from tests.kit.deadlines import HOUR, endless
from tests.kit.fake_cluster import FakeCluster

ORDERS, LEDGER = TopicPartition("orders", 0), TopicPartition("ledger", 0)
SECONDS = 30.0


@dataclass
class Waiting:
    """A patient judgement of all that is offline, whose seconds pass while it pauses."""

    cluster: FakeCluster
    client: ReadClient
    clock: Clock = field(default_factory=Clock)
    acts: list[Callable[[], object]] = field(default_factory=list)
    """What happens during the first pauses, one each."""
    judged: list[Sequence[PartitionState]] = field(default_factory=list)
    reading_seconds: float = 0.0
    stopped: bool = False

    def looks(self) -> list[PatientLook]:
        snapshot = self.client.snapshot(Deadline.after(HOUR))
        return list(
            judge_patiently(
                self._judge,
                self.client,
                snapshot,
                snapshot.offline,
                SECONDS,
                stop=lambda: self.stopped,
                clock=self.clock,
                pause=self._pause,
            )
        )

    def _judge(
        self, snapshot: ClusterSnapshot, partitions: Sequence[PartitionState], _: float
    ) -> Iterator[Triage]:
        self.judged.append(partitions)
        self.clock.advance(self.reading_seconds)
        return judge(self.client, snapshot, partitions, HOUR)

    def _pause(self, seconds: float) -> None:
        self.clock.advance(seconds)
        if self.acts:
            self.acts.pop(0)()

    def unfence(self, broker: int = 3) -> None:
        self.cluster.story.fenced.discard(broker)

    def lead(self) -> None:
        state = self.cluster.story.states[ORDERS]
        self.cluster.story.states[ORDERS] = replace(state, leader=3, isr=(3,))


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    """b3 led `orders-0` last and is fenced; nobody is missed of `ledger-0`."""
    endless(monkeypatch)
    monkeypatch.setattr("breakglass.services.patience.RECHECK", 1.0)
    with FakeCluster(3) as cluster, closing(cluster.client(1)) as client:
        cluster.story.fenced = {3}
        cluster.story.offline(ORDERS, (3, 1, 2), elr=(3,), last=(3,))
        cluster.story.offline(LEDGER, (2, 1))
        for broker in (1, 2):
            cluster.hold(broker, ORDERS, (0, 100))
            cluster.hold(broker, LEDGER, (0, 5))
        yield Waiting(cluster, client)


def test_r15_what_a_fenced_broker_would_bring_is_left_until_the_duration_has_passed(
    waiting: Waiting,
) -> None:
    began = waiting.clock.now
    first, last = waiting.looks()
    assert first.waiting == {ORDERS}
    assert first.brokers == {3: 1}
    assert not last.waiting
    assert last.brokers == {3: 1}
    assert waiting.clock.now - began >= SECONDS
    assert [state.partition for state in waiting.judged[1]] == [ORDERS]


def test_a_partition_that_came_back_meanwhile_is_elected_by_nobody(waiting: Waiting) -> None:
    waiting.acts = [str, waiting.unfence, waiting.lead]
    waiting.cluster.hold(3, ORDERS, (0, 110))
    first, *_, last = waiting.looks()
    assert first.waiting == {ORDERS}
    assert [state.partition for state in last.led] == [ORDERS]
    assert last.found.assessments == ()


def test_a_broker_that_is_unfenced_meanwhile_is_judged_with_the_others(waiting: Waiting) -> None:
    """It is in no ISR any more, and holds nothing that the others lack."""
    waiting.cluster.story.offline(ORDERS, (3, 1, 2))

    def come_back() -> None:
        waiting.cluster.hold(3, ORDERS, (0, 100))
        waiting.unfence()

    waiting.acts = [come_back]
    began = waiting.clock.now
    first, last = waiting.looks()
    assert first.waiting == {ORDERS}
    assert not last.waiting
    assert not last.brokers
    assert [one.heard for one in last.found.assessments] == [(3, 3)]
    assert waiting.clock.now - began < SECONDS


def test_a_reading_that_took_the_whole_duration_is_not_repeated(waiting: Waiting) -> None:
    waiting.reading_seconds = SECONDS
    first, last = waiting.looks()
    assert first.waiting == {ORDERS}
    assert not last.waiting
    assert last.found is first.found
    assert len(waiting.judged) == 1


def test_a_stop_ends_the_wait_and_gives_nobody_up(waiting: Waiting) -> None:
    waiting.acts = [lambda: setattr(waiting, "stopped", True)]
    (only,) = waiting.looks()
    assert only.waiting == {ORDERS}
