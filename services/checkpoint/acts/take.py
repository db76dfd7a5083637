"""Takes a checkpoint: writes its markers once consent is given, then copies its partitions.

Consent covers the markers alone, because copying changes nothing in the cluster. The id is frozen
too: if another checkpoint was taken since, the consent is no longer valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from breakglass.services import patience
from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.wording import (
    PROMISES,
    TakeAsked,
    explain,
    level_words,
    not_higher,
    overtaken,
)
from breakglass.services.errors import EvidenceChanged, Refused
from breakglass.services.guard.act import (
    ACKNOWLEDGED,
    Act,
    ActStep,
    Armed,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
    Underway,
    announced,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.steps import HOLD_RETENTION, RELEASE_RETENTION, TAKE_CHECKPOINT
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition

if TYPE_CHECKING:
    from breakglass.services.checkpoint.coordinator import Scope
    from breakglass.services.checkpoint.parts import CopySettings
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint
    from breakglass.services.kafka.marker_client import MarkerClient
    from breakglass.services.kafka.read_client import ReadClient


@dataclass(frozen=True, slots=True)
class PlannedCheckpoint:
    """A checkpoint before it is taken."""

    id: int
    scope: Scope


@dataclass(frozen=True, slots=True)
class ChosenLevel:
    """The level of a checkpoint, and why."""

    level: Level
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TakeCheckpoint(Act[PlannedCheckpoint]):
    """Take the next checkpoint of *store*."""

    doing: ClassVar[str] = "taking a checkpoint"
    store: BackupStore
    asked: TakeAsked
    how: CopySettings
    id: int | None = None
    """None: the next free id."""
    request: str = field(default_factory=lambda: uuid4().hex)
    """The idempotency key; repeating it resumes the request."""
    repeatable: bool = False
    """Another process may have sent the request before."""
    looked: bool = False
    """The caller has just chosen the level by what the logs show."""
    hold_retention: bool = False
    """Keep all records of the topics until `ReleaseRetention`."""

    def freeze(self, front: Front) -> Frozen[PlannedCheckpoint]:
        """The id, the level, the scope, and whether the groups keep up with the logs."""
        from breakglass.services.checkpoint.kafka.topics import KafkaTopics, of

        known = self.store.id_of(self.request) if self.repeatable else None
        begun = None if known is None else self.store.read(known)
        with front.reading() as client:
            chosen = self._chosen(client, begun)
            topics = KafkaTopics(client, None, self.asked.wanted(chosen.level))
            scope, latest = topics.scope(), topics.latest_id()
            remarks = (*chosen.remarks, *self._remarks(client, scope))
        id = known or self.id or max([latest, *self.store.ids()]) + 1
        groups = [f"{name} {policy}" for name, policy in sorted(scope.groups.items())]
        return Frozen(
            scope.cluster_id or "",
            () if begun is not None and begun.started is not None else tuple(self._phrases(scope)),
            (
                ("Checkpoint", f"{id} in {self.store.address}"),
                ("Level", PROMISES[scope.level]),
                ("Topics", ", ".join(_topics(scope))),
                ("Groups", ", ".join(groups) or "none: no group gets offsets"),
                *_declared(scope),
                ("Timeline", scope.incarnation or "?"),
            ),
            tuple(str(of(partition)) for partition in scope.partitions),
            remarks,
            PlannedCheckpoint(id, scope),
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[PlannedCheckpoint]) -> Ending:
        """Write the markers, if the checkpoint has any; the checkpoint is then acknowledged."""
        from breakglass.services.checkpoint.kafka.topics import of
        from breakglass.services.checkpoint.parts import coordinator_of

        scope, id = frozen.plan.scope, frozen.plan.id
        items = {of(partition): {"checkpoint": id} for partition in scope.partitions}
        details = {"store": self.store.address, "level": scope.level}
        with ExitStack() as stack:
            client = stack.enter_context(front.reading())
            markers = None
            if scope.level is Level.COORDINATED or self.hold_retention:
                power = means.cluster.markers(frozen.cluster_id, holding=self.hold_retention)
                markers = stack.enter_context(power)
                front.tell(Armed())
            if self.hold_retention and markers is not None:
                self._hold(front, means, client, markers, items)
            if scope.level is not Level.COORDINATED:
                markers = None
            coordinator = coordinator_of(
                client, markers, self.store, self.asked.wanted(scope.level), self.how
            )
            with announced(means.journal, TAKE_CHECKPOINT, items, front.tell, **details):
                asked = id if frozen.asked and not self.repeatable else self.id
                taken = coordinator.take(asked, self.request, is_new=not self.repeatable)
                if isinstance(taken, NotHigher):
                    if self.id is not None or self.repeatable:
                        raise Refused(not_higher(taken))
                    raise EvidenceChanged(overtaken(taken))
        for partition, position in self._started(taken).items():
            text = f"started at {position:,}"
            front.tell(TargetOutcome(str(partition), TargetResult.DONE, text))
        text = f"checkpoint {taken} is acknowledged: nothing that is written from now on is in it"
        return Ending(ACKNOWLEDGED, text, taken)

    def follow(self, front: Front, frozen: Frozen[PlannedCheckpoint], ending: Ending) -> str:
        from breakglass.services.checkpoint.kafka.topics import of
        from breakglass.services.checkpoint.parts import finisher_of

        id: int = ending.value
        names = {partition.number: str(of(partition)) for partition in frozen.plan.scope.partitions}
        wanted = self.asked.wanted(frozen.plan.scope.level)
        front.tell(ActStep("copying: leave when you like, the list shows it"))

        def copied(number: int, status: Status) -> None:
            result = TargetResult.DONE if status is Status.COMPLETED else TargetResult.FAILED
            front.tell(TargetOutcome(names[number], result, f"copy {status}"))
            front.tell(Underway(f"{names[number]} is {status}"))

        with (
            front.reading() as client,
            finisher_of(front.cluster, client, self.store, wanted, self.how) as finisher,
        ):
            found = finisher.finish(id, copied)
        return f"checkpoint {id} is {found.status}"

    def _chosen(self, client: ReadClient, begun: StoredCheckpoint | None) -> ChosenLevel:
        """The level that was asked for, or that a repeated request has; else the strongest."""
        if begun is not None and begun.take is not None:
            return ChosenLevel(begun.take.level)
        asked = self.asked.level
        if asked is not None and (self.looked or asked is not Level.COORDINATED):
            return ChosenLevel(asked)
        found = explain(client, self.asked, retention_held=self.hold_retention)
        if asked is not None:
            # Markers that would be useless are refused before anybody consents to them.
            found.require(asked)
            return ChosenLevel(asked)
        level = found.require_level()
        said = f"{level} is the strongest level whose promise holds"
        return ChosenLevel(level, (said, *level_words(found, level)))

    def _phrases(self, scope: Scope) -> Iterator[ConsentPhrase]:
        """A phrase that a scheduled command knows in advance: it names no id."""
        verb = "write {:,} markers" if scope.level is Level.COORDINATED else "copy {:,} partitions"
        held = f" and hold retention of {', '.join(sorted(self.asked.topics))}"
        text = verb.format(len(scope.partitions))
        yield ConsentPhrase(text + held * self.hold_retention)

    def _hold(
        self,
        front: Front,
        means: Means,
        client: ReadClient,
        markers: MarkerClient,
        items: Mapping[TopicPartition, Mapping[str, object]],
    ) -> None:
        from breakglass.services.checkpoint.kafka.holding import RetentionHolder

        topics = sorted(self.asked.topics)
        holder = RetentionHolder(client, markers, self.asked.control_topic, self.request)
        with announced(means.journal, HOLD_RETENTION, items, front.tell, request_id=self.request):
            holder.hold(topics)
        front.tell(ActStep(f"retention is suspended: {', '.join(topics)}"))

    def _remarks(self, client: ReadClient, scope: Scope) -> Iterator[str]:
        """The groups that lag: a checkpoint waits for them for at most the drain time."""
        from breakglass.services.checkpoint.kafka.groups import lags, read_named_groups
        from breakglass.services.checkpoint.kafka.logs import nothing_to_process, read_logs
        from breakglass.services.checkpoint.kafka.topics import of

        if scope.level is Level.ORDERED:
            # It waits for no group.
            return
        ends = {of(partition): scope.floors[partition.number] for partition in scope.partitions}
        deadline = Deadline.after(patience.COMMAND)
        waited_for = [name for name, policy in scope.groups.items() if policy.writes]
        standing = read_named_groups(client, waited_for, ends, deadline)
        logs = read_logs(client, self.asked.topics, deadline)
        empty = partial(nothing_to_process, logs, external=scope.external)
        try:
            for late in lags(standing, ends, empty):
                yield f"{late}; it has {self.asked.drain_seconds:g} s"
        except Refused as error:
            yield str(error)
        if not scope.groups and scope.level is not Level.VECTOR:
            yield "without a group nothing is known of what is in transit"

    def _started(self, id: int) -> dict[TopicPartition, int]:
        from breakglass.services.checkpoint.kafka.topics import of

        found = self.store.read(id)
        if found is None or found.take is None or found.started is None:
            return {}
        positions = found.started.positions
        return {of(partition): positions[partition.number] for partition in found.take.partitions}


@dataclass(frozen=True, slots=True)
class ReleaseRetention(Act[None]):
    """Restore the retention of topics that a take suspended in the name of *request*."""

    doing: ClassVar[str] = "releasing retention"
    control_topic: str
    request: str

    def freeze(self, front: Front) -> Frozen[None]:
        with front.reading() as client:
            cluster_id = client.describe(Deadline.after(patience.COMMAND)).cluster_id
        return Frozen(cluster_id, (), (("Request", self.request),))

    def carry_out(self, front: Front, means: Means, frozen: Frozen[None]) -> Ending:
        """Restore the settings; the ending's value names the topics."""
        from breakglass.services.checkpoint.kafka.holding import RetentionHolder

        with (
            front.reading() as client,
            means.cluster.markers(frozen.cluster_id, holding=True) as markers,
        ):
            client.describe(Deadline.after(patience.COMMAND))
            holder = RetentionHolder(client, markers, self.control_topic, self.request)
            with announced(means.journal, RELEASE_RETENTION, {}, front.tell, held_for=self.request):
                released = holder.release()
        for topic in released:
            front.tell(ActStep(f"topic {topic} has its own retention again"))
        return Ending(value=released)


def _declared(scope: Scope) -> Iterator[tuple[str, str]]:
    if scope.external:
        yield "External", ", ".join(scope.external)
    if scope.flows:
        yield "Flows", ", ".join(map(str, scope.flows))


def _topics(scope: Scope) -> Iterator[str]:
    counts = Counter(partition.topic for partition in scope.partitions)
    for topic, number in sorted(counts.items()):
        yield f"{topic} ({number:,} partition{'s' * (number != 1)})"
