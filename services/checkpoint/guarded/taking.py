"""Taking a checkpoint under guard: its markers are agreed to; copying follows, and changes nothing.

The id is frozen, too: where another checkpoint was taken meanwhile, the consent does not hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from services.checkpoint.failure_text import overtaken
from services.checkpoint.guarded.act import (
    ActStep,
    Frozen,
    TargetOutcome,
    TargetResult,
    Tell,
    Underway,
    announced,
    journalled,
)
from services.checkpoint.guarded.steps import TAKE
from services.checkpoint.option_text import TakeAsked
from services.checkpoint.protocol.coordinator import NotHigher
from services.checkpoint.protocol.values import Status
from services.checkpoint.store.backup_store import BackupStore
from services.checkpoint.store.documents import Level
from services.errors import EvidenceChanged, Refused
from services.kafka.wire.deadline import Deadline
from services.model import TopicPartition

if TYPE_CHECKING:
    from services.checkpoint.interfaces import Scope
    from services.checkpoint.kafka.topics import WantedCheckpoint
    from services.checkpoint.parts import CopySettings
    from services.kafka.read_client import ReadClient
    from services.session import Power, ReadAccess

ASK_SECONDS = 30.0
PROMISES = {
    Level.VECTOR: "vector: unverifiable, nothing is promised",
    Level.VERIFIED: "verified: lowered until it is consistent",
    Level.COORDINATED: "coordinated: cut at the id that every record carries",
}


@dataclass(frozen=True, slots=True)
class Taking:
    """The next checkpoint of *store*."""

    store: BackupStore
    asked: TakeAsked
    access: ReadAccess
    state_folder: Path | None = None

    def freeze(self, client: ReadClient) -> Frozen:
        """Which id it gets, what it is of, and whether its groups keep up."""
        from services.checkpoint.kafka.topics import KafkaTopics, of

        topics = KafkaTopics(client, None, self._wanted)
        scope, latest = topics.scope(), topics.latest_id()
        id = max([latest, *self.store.ids()]) + 1
        marked = len(scope.partitions) if scope.level is Level.COORDINATED else 0
        markers = f"{marked:,} markers" if marked else "no markers"
        groups = [f"{name} {policy}" for name, policy in sorted(scope.groups.items())]
        return Frozen(
            scope.cluster_id or "",
            f"take checkpoint {id} with {markers}",
            (
                ("Checkpoint", f"{id} in {self.store.address}"),
                ("Level", PROMISES[scope.level]),
                ("Topics", ", ".join(_topics(scope))),
                ("Groups", ", ".join(groups) or "none: no group gets offsets"),
                ("Timeline", scope.incarnation or "?"),
            ),
            tuple(str(of(one)) for one in scope.partitions),
            tuple(self._remarks(client, scope)),
            (id, scope),
        )

    def carry_out(self, power: Power, frozen: Frozen, tell: Tell) -> str:
        from services.checkpoint.kafka.topics import of
        from services.checkpoint.parts import coordinator_of

        id, scope = frozen.plan
        items = {of(one): {"checkpoint": id} for one in scope.partitions}
        with ExitStack() as stack:
            journal = stack.enter_context(journalled(frozen, self.state_folder, tell))
            client = stack.enter_context(self.access.reading())
            markers = None
            if scope.level is Level.COORDINATED:
                markers = stack.enter_context(power.markers(frozen.cluster_id))
            coordinator = coordinator_of(client, markers, self.store, self._wanted, self._how)
            details = {"store": self.store.address, "level": scope.level}
            with announced(journal, TAKE, items, tell, **details):
                taken = coordinator.take(id, uuid4().hex)
                if isinstance(taken, NotHigher):
                    raise EvidenceChanged(overtaken(taken))
        for one, position in self._started(id).items():
            tell(TargetOutcome(str(one), TargetResult.DONE, f"started at {position:,}"))
        return f"checkpoint {id} is acknowledged: nothing that is written from now on is in it"

    def follow(self, frozen: Frozen, tell: Tell) -> str:
        """Decide what is in it and copy that."""
        from services.checkpoint.kafka.topics import of
        from services.checkpoint.parts import finisher_of

        id, scope = frozen.plan
        names = {one.number: str(of(one)) for one in scope.partitions}
        tell(ActStep("copying: leave when you like, the list shows it"))

        def copied(number: int, status: Status) -> None:
            result = TargetResult.DONE if status is Status.COMPLETED else TargetResult.FAILED
            tell(TargetOutcome(names[number], result, f"copy {status}"))
            tell(Underway(f"{names[number]} is {status}"))

        with (
            self.access.reading() as client,
            finisher_of(self.access, client, self.store, self._wanted, self._how) as finisher,
        ):
            found = finisher.finish(id, copied)
        return f"checkpoint {id} is {found.status}"

    @property
    def _wanted(self) -> WantedCheckpoint:
        from services.checkpoint.kafka.topics import WantedCheckpoint

        asked = self.asked
        return WantedCheckpoint(asked.level, asked.topics, asked.groups, asked.control_topic)

    @property
    def _how(self) -> CopySettings:
        from services.checkpoint.parts import CopySettings

        return CopySettings(
            drain_seconds=self.asked.drain_seconds, rate=self.asked.bytes_per_second
        )

    def _remarks(self, client: ReadClient, scope: Scope) -> Iterator[str]:
        """The groups that lag: a checkpoint waits for them no longer than it is told to."""
        from services.checkpoint.kafka.groups import lags, read_standing
        from services.checkpoint.kafka.log_ends import read_logs
        from services.checkpoint.kafka.scanning import nothing_to_process
        from services.checkpoint.kafka.topics import of

        ends = {of(one): scope.floors[one.number] for one in scope.partitions}
        deadline = Deadline.after(ASK_SECONDS)
        standing = read_standing(client, scope.groups, ends, deadline)
        logs = read_logs(client, self.asked.topics, deadline)
        try:
            for late in lags(standing, ends, partial(nothing_to_process, logs)):
                yield f"{late}; it has {self.asked.drain_seconds:g} s"
        except Refused as error:
            yield str(error)
        if not scope.groups and scope.level is not Level.VECTOR:
            yield "without a group nothing is known of what is in transit"

    def _started(self, id: int) -> dict[TopicPartition, int]:
        from services.checkpoint.kafka.topics import of

        found = self.store.read(id)
        if found is None or found.take is None or found.started is None:
            return {}
        positions = found.started.positions
        return {of(one): positions[one.number] for one in found.take.partitions}


def _topics(scope: Scope) -> Iterator[str]:
    counts = Counter(one.topic for one in scope.partitions)
    for topic, number in sorted(counts.items()):
        yield f"{topic} ({number:,} partition{'s' * (number != 1)})"
