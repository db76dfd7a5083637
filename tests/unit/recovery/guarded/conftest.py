"""Three fake brokers that elect: b3 led last and is dead, b1 holds more than b2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from services.connection.settings import ConnectionSettings
from services.guard.journal import JournalView, list_journals
from services.kafka.read_client import ReadClient
from services.model import TopicPartition
from services.recovery.execution import confirm
from services.recovery.execution.routes import stock_route
from services.recovery.guarded.election import GuardedElection
from services.recovery.guarded.election_quote import Priced, frozen
from services.recovery.guarded.events import Event
from services.recovery.guarded.rescue_choice import RescueChoice
from services.recovery.triage import triage
from services.session import Power, ReadAccess
from tests.fake_cluster import FakeCluster
from tests.fake_controller import FakeController
from tests.fake_metadata import CLUSTER_ID
from tests.unit.recovery.patience import patient
from tests.waiting import within

RECORDS = {1: 100, 2: 70}


@dataclass
class Session:
    """A cluster, the power to change it, and what an election told."""

    cluster: FakeCluster
    controller: FakeController
    read: ReadClient
    power: Power
    state: Path
    told: list[Event] = field(default_factory=list)
    stop: Callable[[], bool] = lambda: False
    gone: tuple[int, ...] = (3,)
    """Declared gone by the operator."""

    def offline(self, topic: str = "orders", count: int = 1) -> list[TopicPartition]:
        """Partitions without leader; b2 stands before b1 in their assignment."""
        partitions = [TopicPartition(topic, number) for number in range(count)]
        for partition in partitions:
            self.cluster.story.offline(partition, (3, 2, 1), last=(3,))
            for broker, records in RECORDS.items():
                self.cluster.hold(broker, partition, (0, records))
        return partitions

    def wanted(self, designee: int = 1) -> tuple[Priced, ...]:
        """The election of *designee* wherever nobody leads, on evidence read now."""
        *_, found = triage(self.read, 30.0)
        return tuple(frozen(one.evidence, designee, self.gone) for one in found.assessments)

    def election(self, wanted: tuple[Priced, ...], **more: Any) -> GuardedElection:
        given = {"rescue": RescueChoice(without=True), "limits": patient(), **more}
        return GuardedElection(
            self.power,
            CLUSTER_ID,
            wanted,
            stock_route,
            stop=lambda: self.stop(),
            state=self.state,
            **given,
        )

    def journals(self) -> list[JournalView]:
        found = list_journals(CLUSTER_ID, self.state)
        return [one for one in found if isinstance(one, JournalView)]

    def leaders(self) -> set[int | None]:
        return {one.leader for one in self.cluster.story.states.values()}


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(confirm, "SPEAK_SECONDS", within(0.4))
    monkeypatch.setattr(confirm, "LOOK_SECONDS", within(0.5))
    with ExitStack() as stack:
        cluster = stack.enter_context(FakeCluster(3))
        cluster.story.fenced = {3}
        controller = FakeController(cluster)
        read = stack.enter_context(closing(cluster.client(1, 2)))
        servers = tuple(cluster.brokers[one].endpoint for one in RECORDS)
        power = Power(ReadAccess(ConnectionSettings(servers)))
        yield Session(cluster, controller, read, power, tmp_path / "state")
