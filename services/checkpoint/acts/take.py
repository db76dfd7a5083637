"""Takes a checkpoint: writes its markers once consent is given, then copies its partitions.

Consent covers the markers alone, because copying changes nothing in the cluster. The id is frozen
too: if another checkpoint was taken since, the consent is no longer valid.

Suspends the retention of topics for checkpoints by one act, and restores it by another.

A hold has the name of the request that reserved the checkpoint, so that another process finds out
from the store whether the checkpoint has ended: a restarted server, or `checkpoint finish`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar
from uuid import uuid4

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.holding import RetentionHolder
from breakglass.services.checkpoint.kafka.logs import nothing_to_process, read_logs
from breakglass.services.checkpoint.kafka.owners import lags, read_named_groups
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.parts import coordinator_of, finisher_of
from breakglass.services.checkpoint.promises import WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import NotHigher, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level, TakeDocument
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.checkpoint.wording import (
    PROMISES,
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
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition

ENDED = (Status.COMPLETED, Status.FAILED)


def release_ended(
    store: BackupStore, held: Collection[str], release: Callable[[str], object]
) -> None:
    """Release the holds of checkpoints of *store* that are completed, failed or deleted.

    *held* are the requests that hold back the retention of a cluster's topics. Holds of other
    requests are left: another process, or another store, has use for them.

    Raises: as `RetentionHolder.release`; AlreadyRunning, StorageError.
    """
    for request in sorted(held):
        id = store.id_of(request)
        if id is None:
            continue
        found = store.read(id)
        if found is None or found.status in ENDED:
            release(request)


def suspend(
    front: Front,
    means: Means,
    holder: RetentionHolder,
    topics: Collection[str],
    items: Mapping[TopicPartition, Mapping[str, object]],
    /,
    **details: Any,
) -> None:
    """Suspend the retention of *topics*; *items* and *details* are for the journal."""
    request = holder.request
    with announced(means.journal, HOLD_RETENTION, items, front.tell, request_id=request, **details):
        holder.hold(topics)
    front.tell(ActStep(f"retention is suspended: {', '.join(topics)}"))


@dataclass(frozen=True, slots=True)
class HoldRetention(Act[None]):
    """Keep all records of *topics* in the name of *request*, until that is released."""

    doing: ClassVar[str] = "suspending retention"
    topics: tuple[str, ...]
    control_topic: str
    request: str

    def freeze(self, front: Front) -> Frozen[None]:
        with front.reading() as client:
            cluster_id = client.describe(Deadline.after(patience.COMMAND)).cluster_id
        evidence = (("Request", self.request), ("Topics", ", ".join(sorted(self.topics))))
        return Frozen(cluster_id, (), evidence, tuple(sorted(self.topics)))

    def carry_out(self, front: Front, means: Means, frozen: Frozen[None]) -> Ending:
        """Change the settings; return when the brokers have confirmed them."""
        topics = sorted(self.topics)
        with (
            front.reading() as client,
            means.cluster.markers(frozen.cluster_id, holding=True) as markers,
        ):
            client.describe(Deadline.after(patience.COMMAND))
            holder = RetentionHolder(client, markers, self.control_topic, self.request)
            suspend(front, means, holder, topics, {}, topics=topics)
        return Ending()


@dataclass(frozen=True, slots=True)
class ReleaseRetention(Act[None]):
    """Restore the retention of topics that was suspended in the name of *request*."""

    doing: ClassVar[str] = "releasing retention"
    control_topic: str
    request: str

    def freeze(self, front: Front) -> Frozen[None]:
        with front.reading() as client:
            cluster_id = client.describe(Deadline.after(patience.COMMAND)).cluster_id
        return Frozen(cluster_id, (), (("Request", self.request),))

    def carry_out(self, front: Front, means: Means, frozen: Frozen[None]) -> Ending:
        """Restore the settings; the ending's value names the topics."""
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


@dataclass(frozen=True, slots=True)
class TakeCheckpoint(Act[TakeDocument]):
    """Take the next checkpoint of *store*."""

    doing: ClassVar[str] = "taking a checkpoint"
    store: BackupStore
    wanted: WantedCheckpoint
    id: int | None = None
    """None: the next free id."""
    request: str = field(default_factory=lambda: uuid4().hex)
    """The idempotency key; repeating it resumes the request."""
    repeatable: bool = False
    """Another process may have sent the request before."""
    looked: bool = False
    """The caller has just chosen the level by what the logs show."""

    def freeze(self, front: Front) -> Frozen[TakeDocument]:
        """The id, the level, the scope, and whether the groups keep up with the logs."""
        known = self.store.id_of(self.request) if self.repeatable else None
        begun = None if known is None else self.store.read(known)
        with front.reading() as client:
            level, chosen = self._chosen(client, begun)
            topics = KafkaTopics(client, None, self.wanted.at(level))
            scope, latest = topics.scope(), topics.latest_id()
            remarks = (*chosen, *self._remarks(client, scope))
        id = known or self.id or max([latest, *self.store.ids()]) + 1
        counts = sorted(Counter(partition.topic for partition in scope.partitions).items())
        groups = [f"{name} {policy}" for name, policy in sorted(scope.groups.items())]
        facts = [
            ("Checkpoint", f"{id} in {self.store.address}"),
            ("Level", PROMISES[level]),
            ("Topics", ", ".join(f"{of} ({n:,} partition{'s' * (n != 1)})" for of, n in counts)),
            ("Groups", ", ".join(groups) or "none: no group gets offsets"),
        ]
        if scope.external:
            facts.append(("External", ", ".join(scope.external)))
        if scope.flows:
            facts.append(("Flows", ", ".join(map(str, scope.flows))))
        facts.append(("Timeline", scope.incarnation or "?"))
        # A scheduled command knows the phrase in advance: it names no id.
        verb = "write {:,} markers" if level is Level.COORDINATED else "copy {:,} partitions"
        held = f" and hold retention of {', '.join(sorted(self.wanted.topics))}"
        phrase = verb.format(len(scope.partitions)) + held * self.wanted.hold_retention
        is_done = begun is not None and begun.started is not None
        return Frozen(
            scope.cluster_id or "",
            () if is_done else (ConsentPhrase(phrase),),
            tuple(facts),
            tuple(map(str, scope.numbers)),
            remarks,
            replace(scope, id=id),
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[TakeDocument]) -> Ending:
        """Write the markers, if the checkpoint has any; the checkpoint is then acknowledged."""
        scope, wanted = frozen.plan, self.wanted.at(frozen.plan.level)
        items = {partition: {"checkpoint": scope.id} for partition in scope.numbers}
        details = {"store": self.store.address, "level": scope.level}
        with ExitStack() as stack:
            client = stack.enter_context(front.reading())
            markers = None
            if scope.level is Level.COORDINATED or wanted.hold_retention:
                power = means.cluster.markers(frozen.cluster_id, holding=wanted.hold_retention)
                markers = stack.enter_context(power)
                front.tell(Armed())
            if wanted.hold_retention and markers is not None:
                topic = wanted.how.control_topic
                holder = RetentionHolder(client, markers, topic, self.request)
                suspend(front, means, holder, sorted(wanted.topics), items)
            if scope.level is not Level.COORDINATED:
                markers = None
            coordinator = coordinator_of(client, markers, self.store, wanted)
            with announced(means.journal, TAKE_CHECKPOINT, items, front.tell, **details):
                asked = scope.id if frozen.asked and not self.repeatable else self.id
                taken = coordinator.take(asked, self.request, is_new=not self.repeatable)
                if isinstance(taken, NotHigher):
                    if self.id is not None or self.repeatable:
                        raise Refused(not_higher(taken))
                    raise EvidenceChanged(overtaken(taken))
        found = self.store.read(taken)
        if found is not None and found.take is not None and found.started is not None:
            for partition, number in found.take.numbers.items():
                text = f"started at {found.started.positions[number]:,}"
                front.tell(TargetOutcome(str(partition), TargetResult.DONE, text))
        text = f"checkpoint {taken} is acknowledged: nothing that is written from now on is in it"
        return Ending(ACKNOWLEDGED, text, taken)

    def follow(self, front: Front, frozen: Frozen[TakeDocument], ending: Ending) -> str:
        id: int = ending.value
        names = {number: str(partition) for partition, number in frozen.plan.numbers.items()}
        front.tell(ActStep("copying: leave when you like, the list shows it"))

        def copied(number: int, status: Status) -> None:
            result = TargetResult.DONE if status is Status.COMPLETED else TargetResult.FAILED
            front.tell(TargetOutcome(names[number], result, f"copy {status}"))
            front.tell(Underway(f"{names[number]} is {status}"))

        with (
            front.reading() as client,
            finisher_of(front.cluster, client, self.store, self.wanted.how) as finisher,
        ):
            found = finisher.finish(id, copied)
        return f"checkpoint {id} is {found.status}"

    def _chosen(
        self, client: ReadClient, begun: StoredCheckpoint | None
    ) -> tuple[Level, tuple[str, ...]]:
        """The level that was asked for, or that a repeated request has; else the strongest.

        With remarks on why it was chosen.
        """
        if begun is not None and begun.take is not None:
            return begun.take.level, ()
        asked = self.wanted.level
        if asked is not None and (self.looked or asked is not Level.COORDINATED):
            return asked, ()
        found = explain(client, self.wanted)
        if asked is not None:
            # Markers that would be useless are refused before anybody consents to them.
            found.require(asked)
            return asked, ()
        level = found.require_level()
        reason = f"{level} is the strongest level whose promise holds"
        return level, (reason, *level_words(found, level))

    def _remarks(self, client: ReadClient, scope: TakeDocument) -> Iterator[str]:
        """The groups that lag: a checkpoint waits for them for at most the drain time."""
        if scope.level is Level.ORDERED:
            # It waits for no group.
            return
        ends = scope.floors_of_logs
        deadline = Deadline.after(patience.COMMAND)
        standing = read_named_groups(client, scope.writing, ends, deadline)
        logs = read_logs(client, self.wanted.topics, deadline)
        empty = partial(nothing_to_process, logs, external=scope.external)
        try:
            for late in lags(standing, ends, empty):
                yield f"{late}; it has {self.wanted.how.drain_seconds:g} s"
        except Refused as error:
            yield str(error)
        if not scope.groups and scope.level is not Level.VECTOR:
            yield "without a group nothing is known of what is in transit"
