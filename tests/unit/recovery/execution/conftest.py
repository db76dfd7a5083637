"""A cluster of fake brokers that elects, and an execution over it, journal included."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from breakglass.services import patience
from breakglass.services.guard.journal import Journal, JournalView, read
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.run import Recovery, Rescue
from breakglass.services.recovery.execution.steps import ExecutionLimits, RouteChoice, stock_route
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
)
from tests.kit.deadlines import HOUR, MOMENT, endless
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_controller import FakeController
from tests.kit.fake_metadata import CLUSTER_ID
from tests.unit.recovery.execution.targets import target

LAST_LEADER = 3
"""Of every partition; it is dead."""
RECORDS = {1: 100, 2: 70}
"""By broker, what its replicas hold: b1 is the one to elect."""
LOOKS = 5
"""After so many, a wait for leaders is over."""
UNHURRIED = ExecutionLimits(read=HOUR, election=HOUR, confirmation=HOUR, underway=HOUR)


@dataclass
class Bench:
    """All that a test of an execution needs."""

    cluster: FakeCluster
    controller: FakeController
    read: ReadClient
    elect: ElectionClient
    journal: Journal
    opened: ExitStack
    """Closed at the end."""
    monkeypatch: pytest.MonkeyPatch
    pauses: list[float] = field(default_factory=list)
    limits: ExecutionLimits = UNHURRIED
    choose_route: RouteChoice = stock_route
    stop: Callable[[], bool] = lambda: False
    between_looks: Callable[[], object] = str
    _looks: Counter[Deadline] = field(default_factory=Counter)

    def offline(self, topic: str = "orders", count: int = 1) -> list[ElectionTarget]:
        """Targets for partitions that b3 led last; b1 is to lead, b2 holds less."""
        return [self._offline(TopicPartition(topic, number)) for number in range(count)]

    def _offline(self, partition: TopicPartition) -> ElectionTarget:
        self.cluster.story.offline(partition, (3, 2, 1), last=(LAST_LEADER,))
        for broker, count in RECORDS.items():
            self.cluster.hold(broker, partition, (0, count))
        order = (1, 2, 3)
        return target(partition, 1, order, (3, 2, 1), log_end=RECORDS[1])

    def electing_through(self, broker: int) -> ElectionClient:
        """A client of its own that elects through *broker*."""
        sender = self.cluster.sender(api_keys.READ | api_keys.ELECT, broker)
        self.opened.callback(sender.close)
        return ElectionClient(sender)

    def change(self, wanted: ElectionTarget, **fields: Any) -> None:
        """The partition of *wanted* is another in the metadata."""
        states = self.cluster.story.states
        states[wanted.partition] = replace(states[wanted.partition], **fields)

    def allow(self, **seconds: float) -> None:
        """Give the limits of `services.patience` named by *seconds* other values."""
        for name, value in seconds.items():
            self.monkeypatch.setattr(patience, name, value)

    def hang(self, broker: int, limit: str = "LEADER") -> None:
        """*broker* stops answering, the controller does not notice, and *limit* ends waits."""
        self.cluster.brokers[broker].hung = True
        self.allow(**{limit: MOMENT})

    def recovery(self, rescue: Rescue | None = None) -> Recovery:
        recovery = Recovery(
            self.elect,
            self.journal,
            self.choose_route,
            rescue,
            limits=self.limits,
            stop=self.stop,
            pause=self.pauses.append,
        )
        recovery.observer = Observer(self.read, self._between, self._passed)
        return recovery

    def _between(self, _: float) -> None:
        self.between_looks()

    def _passed(self, deadline: Deadline) -> bool:
        self._looks[deadline] += 1
        return self._looks[deadline] > LOOKS

    def run(
        self, targets: Sequence[ElectionTarget], rescue: Rescue | None = None
    ) -> list[PartitionOutcome]:
        """Elect *targets*; the outcomes of all batches."""
        return [outcome for batch in self.recovery(rescue).run(targets) for outcome in batch]

    def one(self, targets: Sequence[ElectionTarget]) -> PartitionOutcome:
        (outcome,) = self.run(targets)
        return outcome

    def results(self, targets: Sequence[ElectionTarget]) -> list[RecoveryResult]:
        return [outcome.result for outcome in self.run(targets)]

    def written(self) -> JournalView:
        return read(self.journal.path)

    def assignment(self, wanted: ElectionTarget) -> tuple[int, ...]:
        return self.cluster.story.states[wanted.partition].assignment

    def leader(self, wanted: ElectionTarget) -> int | None:
        return self.cluster.story.states[wanted.partition].leader

    def steps(self) -> list[tuple[str, dict[str, int]]]:
        """Each step in the journal with how often it ended in which result."""
        return [(step.name, _counts(step.outcomes.values())) for step in self.written().steps]


def _counts(outcomes: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome.result] = counts.get(outcome.result, 0) + 1
    return counts


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Three brokers, of which b3 is fenced; reads go through b2, elections through b1."""
    endless(monkeypatch)
    with ExitStack() as stack:
        cluster = stack.enter_context(FakeCluster(3))
        controller = FakeController(cluster)
        cluster.story.fenced = {LAST_LEADER}
        read = stack.enter_context(closing(cluster.client(2, 1)))
        armed = stack.enter_context(closing(cluster.sender(api_keys.READ | api_keys.ELECT, 1, 2)))
        ReadClient(armed).describe(Deadline.after(HOUR))
        journal = stack.enter_context(Journal.open(CLUSTER_ID, tmp_path / "state"))
        client = ElectionClient(armed)
        yield Bench(cluster, controller, read, client, journal, stack, monkeypatch)
