"""Three fake brokers that elect: b3 led last and is dead, b1 holds more than b2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from kafka.protocol.consumer import ListOffsetsRequest

from breakglass.services import patience
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.guard.act import ActEvent, Front, GuardedRun
from breakglass.services.guard.journal import JournalView, list_journals
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts.elect import Elect
from breakglass.services.recovery.acts.resume import ResumeJournal
from breakglass.services.recovery.execution.steps import ExecutionLimits, stock_route
from breakglass.services.recovery.execution.target import PartitionOutcome
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject, Priced, frozen
from breakglass.services.recovery.triage import triage
from breakglass.services.session import Power, ReadAccess
from tests.kit.fake_broker import HangUp
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_controller import FakeController
from tests.kit.fake_metadata import CLUSTER_ID
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.console.fakes import RECORDS, offline_on

UNHURRIED = DEADLINE_SECONDS
"""Ends a hang: no broker that answers at all is this slow."""
ANSWERS = (
    *("CHUNK", "CONTROLLER", "GREETING", "GROUPS", "GROUP_BOUNDS", "LEADER", "LOOK"),
    *("ONE_BROKER", "REQUEST", "ROLL_CALL", "SNAPSHOT"),
)
"""Kinds of answers that `breakglass.services.patience` waits for."""


def limits(confirmation: float = UNHURRIED) -> ExecutionLimits:
    return ExecutionLimits(
        read=UNHURRIED, election=UNHURRIED, confirmation=confirmation, underway=confirmation
    )


@dataclass
class Session:
    """A cluster, the power to change it, and what an election told."""

    cluster: FakeCluster
    controller: FakeController
    read: ReadClient
    power: Power
    state: Path
    told: list[ActEvent] = field(default_factory=list)
    endings: list[str | None] = field(default_factory=list)
    """As the journals record them."""
    stop: Callable[[], bool] = lambda: False
    gone: tuple[int, ...] = (3,)
    """Declared gone by the operator."""

    def offline(self, topic: str = "orders", count: int = 1) -> list[TopicPartition]:
        return offline_on(self.cluster, topic, count)

    def wanted(self, designee: int = 1) -> tuple[Priced, ...]:
        """The election of *designee* wherever nobody leads, on evidence read now."""
        *_, found = triage(self.read, UNHURRIED)
        return tuple(
            frozen(assessment.evidence, designee, self.gone) for assessment in found.assessments
        )

    def election(self, wanted: tuple[Priced, ...], digest: str = "", **more: Any) -> AgreedRun:
        given = {"rescue": RescueChoice(without=True), "limits": limits(), **more}
        subject = ElectionSubject(CLUSTER_ID, wanted, digest=digest)
        return AgreedRun(self, Elect(lambda _: subject, stock_route, **given))

    def resumed(self, path: Path, *, undo: bool = False) -> AgreedRun:
        act = ResumeJournal(path, undo, RescueChoice(without=True), seconds=UNHURRIED)
        return AgreedRun(self, act)

    def journals(self) -> list[JournalView]:
        found = list_journals(CLUSTER_ID, self.state)
        return [view for view in found if isinstance(view, JournalView)]

    def mute(self, broker: int) -> None:
        """Let *broker* say nothing of its logs, and so not that it leads."""
        self.cluster.brokers[broker].serve(ListOffsetsRequest, hang_up)

    def speak(self, broker: int) -> None:
        answers = self.cluster.apis(broker)
        self.cluster.brokers[broker].serve(ListOffsetsRequest, answers[ListOffsetsRequest])

    def change(self, partition: TopicPartition, **changed: Any) -> None:
        """Change what the controller knows of *partition*."""
        state = self.cluster.story.states[partition]
        self.cluster.story.states[partition] = replace(state, **changed)

    def leaders(self) -> set[int | None]:
        return {state.leader for state in self.cluster.story.states.values()}


def hang_up(_: object) -> NoReturn:
    raise HangUp


class AgreedRun:
    """An act that was frozen, and can be carried out once."""

    def __init__(self, session: Session, act: Elect | ResumeJournal) -> None:
        self._session = session
        access, stop = session.power.access, lambda: session.stop()
        front = Front(access, session.told.append, stop, session.state)
        self._run: GuardedRun[Any] = GuardedRun(act, front)
        self.frozen = self._run.freeze()

    @property
    def phrases(self) -> list[str]:
        """What has to be agreed to."""
        return [asked.phrase for asked in self.frozen.asked]

    def run(self, phrases: Sequence[str]) -> list[PartitionOutcome]:
        ending = self._run.carry_out(self._session.power, self.frozen, phrases)
        self._session.endings.append(ending.result)
        outcomes: list[PartitionOutcome] = ending.value
        return outcomes


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No healthy broker is judged by a clock."""
    for kind in ANSWERS:
        monkeypatch.setattr(patience, kind, UNHURRIED)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with ExitStack() as stack:
        cluster = stack.enter_context(FakeCluster(3))
        cluster.story.fenced = {3}
        controller = FakeController(cluster)
        read = stack.enter_context(closing(cluster.client(1, 2)))
        servers = tuple(cluster.brokers[record].endpoint for record in RECORDS)
        power = Power(ReadAccess(ConnectionSettings(servers)))
        yield Session(cluster, controller, read, power, tmp_path / "state")
