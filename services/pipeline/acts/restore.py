"""Restores topics from a backup, and reports their destinations, record counts and proof."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from breakglass.services import patience
from breakglass.services.errors import Refused
from breakglass.services.guard.act import (
    PARTLY_FAILED,
    SUCCEEDED,
    Act,
    ActEvent,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.restore.options import RestoreSettings

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.pipeline.backup_context import CopyProgress
    from breakglass.services.pipeline.restore.options import RestorePlan
    from breakglass.services.pipeline.restore.restore import RestoreRun, TopicRestored
    from breakglass.services.topic_backup.store.store import Store


@dataclass(frozen=True, slots=True)
class CopyProgressed(ActEvent):
    """The progress of the copy; each report replaces the previous one."""

    progress: CopyProgress

    @property
    def text(self) -> str:
        now = self.progress
        return f"{now.topic}: {now.done:,} of {now.total:,} records, {now.bytes / 1e6:,.1f} MB"


@dataclass(frozen=True, slots=True)
class RestoreTopics(Act["RestorePlan"]):
    """Restore what *plan* finds in *store*."""

    doing: ClassVar[str] = "restoring topics"
    store: Store
    plan: Callable[[ReadClient], RestorePlan]
    """Makes the plan: it reads every byte of the backup."""
    how: RestoreSettings

    def freeze(self, front: Front) -> Frozen[RestorePlan]:
        from breakglass.services.pipeline.restore.plan import hindrance

        with front.reading() as client:
            client.describe_for_changes(Deadline.after(patience.JOB))
            plan = self.plan(client)
            waits = hindrance(client, plan, self.how)
        return Frozen(
            plan.cluster_id,
            (ConsentPhrase(plan.phrase),),
            (("Topics", "; ".join(destinations(plan)) or "every one is restored already"),),
            tuple(targets_of(plan)),
            (waits,) if waits else (),
            plan,
            plan.source,
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[RestorePlan]) -> Ending:
        """Restore the records; the ending's value is the list of `TopicRestored`.

        Raises Refused: it would wait in vain.
        """
        from breakglass.services.pipeline.restore.restore import restore

        if frozen.remarks:
            raise Refused(frozen.remarks[0])
        with restore_run(front, means, frozen.plan.cluster_id, self.store, self.how) as run:
            done = restore(run, frozen.plan)
        for topic in done:
            for outcome in outcomes_of(topic, frozen.plan):
                front.tell(outcome)
        return ended(done)


@contextmanager
def restore_run(
    front: Front, means: Means, cluster_id: str, store: Store, how: RestoreSettings
) -> Iterator[RestoreRun]:
    """The clients and options that restore records, until the end of the block."""
    from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
    from breakglass.services.pipeline.restore.restore import RestoreRun
    from breakglass.services.pipeline.session import Spark

    with ExitStack() as stack:
        topics = stack.enter_context(means.cluster.topics(cluster_id))
        client = stack.enter_context(front.reading())
        client.describe_for_changes(Deadline.after(patience.JOB))
        spark = stack.enter_context(Spark(how.master))
        spark.begin()
        meter = Meter(lambda progress: front.tell(CopyProgressed(progress)))
        run = BackupRun(client, spark, front.cluster, BackupSettings(store), meter)
        yield RestoreRun(run, topics, means.journal, cluster_id, how)


def ended(done: Sequence[TopicRestored]) -> Ending:
    """The ending of a restore, from the results of its topics."""
    whole = all(topic.complete for topic in done)
    return Ending(SUCCEEDED if whole else PARTLY_FAILED, value=list(done))


def destinations(plan: RestorePlan) -> Iterator[str]:
    """Where the records of each topic go."""
    for topic in plan.topics:
        kind = "the topic that is there" if topic.exists else "a new topic"
        yield f"{topic.topic} -> {topic.target}, {topic.records:,} records into {kind}"


def targets_of(plan: RestorePlan) -> Iterator[str]:
    """The partitions that get records."""
    for topic in plan.topics:
        for partition in topic.partitions:
            yield f"{topic.target}-{partition.partition}"


def outcomes_of(restored: TopicRestored, plan: RestorePlan) -> Iterator[TargetOutcome]:
    """The result of each partition of one topic."""
    result = TargetResult.DONE
    if not restored.whole:
        result = TargetResult.UNKNOWN if restored.unknown else TargetResult.FAILED
    verdict = restored.comparison(sound=restored.sound)
    if restored.before_all and restored.verified:
        verdict = "nothing"
    for topic in plan.topics:
        if topic.target == restored.target:
            for partition in topic.partitions:
                text = restored.error or f"{partition.records:,} records, {verdict}"
                yield TargetOutcome(f"{topic.target}-{partition.partition}", result, text)
