"""Restoring a checkpoint under guard: where each topic goes, what the groups get, and the proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from services.checkpoint.guarded.act import (
    ActStep,
    Frozen,
    TargetOutcome,
    TargetResult,
    Tell,
    Underway,
    journalled,
)
from services.checkpoint.option_text import RestoreAsked, new_names
from services.checkpoint.promise import promise
from services.checkpoint.restore_notes import settings_given, settings_told, told_of
from services.checkpoint.store.backup_store import BackupStore
from services.errors import ClusterError, OutcomeUnknown, Refused
from services.kafka.wire.deadline import Deadline

if TYPE_CHECKING:
    from services.checkpoint.spark.restoring import CheckpointPlan
    from services.guard.journal import Journal
    from services.kafka.read_client import ReadClient
    from services.pipeline.report import CopyProgress
    from services.pipeline.restore.restore import TopicRestored
    from services.session import Power, ReadAccess

ASK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Restoring:
    """Checkpoint *id* of *store*, into the topics that are asked for."""

    store: BackupStore
    id: int
    asked: RestoreAsked
    access: ReadAccess
    state_folder: Path | None = None

    def freeze(self, client: ReadClient) -> Frozen:
        from services.checkpoint.spark.restoring import CheckpointRestoreOptions, make_plan

        found = self.store.read(self.id)
        if found is None:
            raise Refused(f"checkpoint {self.id} is gone: look at the list again.")
        renamed = new_names(found, self.asked.renamed, self.asked.suffix)
        cluster_id = client.describe(Deadline.after(ASK_SECONDS)).cluster_id
        options = CheckpointRestoreOptions(renamed, self.asked.resume)
        plan = make_plan(client, self.store, self.id, options, self._state(cluster_id))
        return Frozen(
            cluster_id,
            plan.phrase,
            (
                ("Checkpoint", f"{self.id} of {self.store.address}"),
                ("Promise", promise(found)),
                ("Topics", "; ".join(_into(plan)) or "every one is restored already"),
                ("Groups", ", ".join(sorted(_groups(plan))) or "none gets offsets"),
            ),
            tuple(_targets(plan)),
            tuple(line for given in settings_given(plan) for line in settings_told(given)),
            plan,
        )

    def carry_out(self, power: Power, frozen: Frozen, tell: Tell) -> str:
        plan: CheckpointPlan = frozen.plan
        with journalled(frozen, self.state_folder, tell) as journal, ExitStack() as stack:
            client = stack.enter_context(self.access.reading())
            client.describe(Deadline.after(ASK_SECONDS))
            done = self._restored(power, client, plan, journal, tell, stack)
            for one in done:
                _tell_topic(one, plan, tell)
            _require_whole(done)
        return "restored as a whole: members of the groups may be started"

    def follow(self, frozen: Frozen, tell: Tell) -> str:
        del frozen, tell
        return ""

    def _restored(
        self,
        power: Power,
        client: ReadClient,
        plan: CheckpointPlan,
        journal: Journal,
        tell: Tell,
        stack: ExitStack,
    ) -> Sequence[TopicRestored]:
        from services.checkpoint.spark.restore import restore
        from services.pipeline.backup_context import BackupRun, BackupSettings, Meter
        from services.pipeline.restore.restore import RestoreRun
        from services.pipeline.session import Spark
        from services.topic_backup.store.store import open_store

        cluster_id = plan.plan.cluster_id
        topics = stack.enter_context(power.topics(cluster_id))
        markers = stack.enter_context(power.markers(cluster_id))
        spark = stack.enter_context(Spark())
        place = BackupSettings(open_store(plan.copies[0].store.address))
        meter = Meter(lambda progress: tell(Underway(_told(progress))))
        run = BackupRun(client, spark, self.access, place, meter)
        work = RestoreRun(run, topics, journal, cluster_id)
        return restore(work, markers, plan, self.asked.control_topic)

    def _state(self, cluster_id: str) -> Path:
        from services.guard.lock import file_name
        from services.state_folder import state_folder

        return (self.state_folder or state_folder()) / "restores" / file_name(cluster_id)


def _into(plan: CheckpointPlan) -> Iterator[str]:
    for one in plan.plan.topics:
        what = "the topic that is there" if one.exists else "a new topic"
        yield f"{one.topic} -> {one.target}, {one.records:,} records into {what}"


def _groups(plan: CheckpointPlan) -> set[str]:
    held = (each for one in plan.plan.topics for each in one.groups.values())
    return {name for offsets in held for name in offsets}


def _targets(plan: CheckpointPlan) -> Iterator[str]:
    for topic in plan.plan.topics:
        for one in topic.partitions:
            yield f"{topic.target}-{one.partition}"


def _tell_topic(one: TopicRestored, plan: CheckpointPlan, tell: Tell) -> None:
    """What came of the partitions of one topic, and what is to be known of it besides."""
    result = (
        TargetResult.DONE
        if one.whole
        else TargetResult.UNKNOWN
        if one.unknown
        else TargetResult.FAILED
    )
    verdict = {True: "identical", False: "differs", None: "not compared"}[one.verified]
    for topic in plan.plan.topics:
        if topic.target == one.target:
            for part in topic.partitions:
                told = one.error or f"{part.records:,} records, {verdict}"
                tell(TargetOutcome(f"{topic.target}-{part.partition}", result, told))
    for line in told_of(one):
        tell(ActStep(line))


def _require_whole(done: Sequence[TopicRestored]) -> None:
    """Raises OutcomeUnknown or ClusterError where a topic is not whole."""
    if all(one.whole for one in done):
        return
    torn = ", ".join(one.target for one in done if not one.whole)
    told = f"{torn} not restored as a whole: start no members, do what is said, then --resume"
    if any(one.unknown for one in done):
        raise OutcomeUnknown(told)
    raise ClusterError(told)


def _told(progress: CopyProgress) -> str:
    return f"{progress.topic}: {progress.done:,} of {progress.total:,} records"
