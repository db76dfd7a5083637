"""Runs a restore: topics, records, proof, settings and groups, in this order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, OutcomeUnknown, Refused
from breakglass.services.guard.journal import Journal
from breakglass.services.guard.steps import RESTORE_RECORDS
from breakglass.services.kafka.admin_client import TopicClient
from breakglass.services.kafka.cluster.group_offsets import find_coordinator
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.backup_context import BackupRun, repeating
from breakglass.services.pipeline.restore.groups import GroupRestore, require_no_members
from breakglass.services.pipeline.restore.offset_map import OffsetMap, read_log
from breakglass.services.pipeline.restore.options import (
    BELOW,
    RestorePlan,
    RestoreSettings,
    TopicPlan,
)
from breakglass.services.pipeline.restore.plan import hindrance
from breakglass.services.pipeline.restore.producing import failures, produce_by_tasks
from breakglass.services.pipeline.restore.proof import (
    Foreign,
    declared_in,
    foreign_records,
    foreign_text,
    prove,
    seen_to,
)
from breakglass.services.pipeline.restore.state import RestoreState, read_state
from breakglass.services.pipeline.restore.target import RestoreTarget
from breakglass.services.pipeline.restore.task import ForeignRecords, PartitionTask
from breakglass.services.pipeline.session import jvm_errors
from breakglass.services.pipeline.source import TopicSource
from breakglass.services.pipeline.stored_segments import require_unchanged
from breakglass.services.topic_backup.summary import added

WATCH_SECONDS = 0.5


@dataclass(slots=True)
class TopicRestored:
    """The result of the restore of one topic."""

    topic: str
    target: str
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    declared: dict[str, int] = field(default_factory=dict)
    """Records that could not be kept exactly, by the difference."""
    verified: bool | None = None
    """Whether the topic has every record; None: not compared."""
    differences: dict[str, int] = field(default_factory=dict)
    """Differences that are not declared."""
    settings_back: bool = False
    """Whether the topic has its own settings again."""
    groups_set: dict[str, dict[int, int]] = field(default_factory=dict)
    """New offset by group and partition."""
    groups_failed: dict[str, str] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)
    """Accepted gaps: offsets that are lost in the backup."""
    lost: list[str] = field(default_factory=list)
    """Offsets that were lost before the backup could copy them."""
    salvaged: bool = False
    """Records were salvaged from a damaged backup, or taken from files that nothing vouched for."""
    vouched: bool = True
    """Whether a manifest had the hashes of the records."""
    unexplained: int = 0
    """Offsets of the topic that are missing for a reason that no run could find out."""
    before_all: str = ""
    """Why nothing was restored of a backup that has records."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Records that are not restored, by reason."""
    elsewhere: str = ""
    """The command that restores records which the topic lacks, into another one (B34)."""
    error: str = ""
    unknown: bool = False
    """No answer came, so the change may or may not have happened."""

    @property
    def complete(self) -> bool:
        """Whether the topic has everything that the backup should have."""
        return self.sound and not self.elsewhere

    @property
    def sound(self) -> bool:
        """Whether what was restored is everything that the plan restores."""
        return self.whole and not (self.gaps or self.salvaged or self.before_all)

    @property
    def whole(self) -> bool:
        return not self.error and self.verified is not False and not self.groups_failed

    def comparison(self, *, sound: bool = True) -> str:
        """What the comparison with the backup says; identical is only what is *sound*."""
        proved = sound and self.vouched and not self.unexplained
        same = "identical" if proved else "not proved"
        return {True: same, False: "differs", None: "not compared"}[self.verified]

    def remarks(self) -> Iterator[str]:
        """What failed and what differs, one line each; empty if nothing does."""
        if self.before_all:
            yield f"{self.target}  nothing is restored: {self.before_all}"
        if self.error:
            yield f"{self.target}  not restored: {self.error}"
        if self.elsewhere:
            count = self.left_out[BELOW]
            yield f"{self.target}  {count:,} records are not put back: {BELOW}; {self.elsewhere}"
        if not self.settings_back:
            yield (
                f"{self.target}  nothing in it expires yet: --resume continues, --resume "
                "--no-verify gives it its own settings whatever is there"
            )
        for what, count in self.declared.items():
            yield f"{self.target}  {count:,} records are not as they were: {what}"
        for kind, count in self.differences.items():
            yield f"{self.target}  {count:,} records {kind}"
        for group, reason in self.groups_failed.items():
            yield f"{self.target}  group {group} was not moved: {reason}"


@dataclass(frozen=True, slots=True)
class RestoreRun:
    """The clients and settings of a restore; exists only in an armed session."""

    run: BackupRun
    topics: TopicClient
    journal: Journal
    cluster_id: str
    """The cluster of the plan: tasks write to no other cluster."""
    how: RestoreSettings


def restore(work: RestoreRun, plan: RestorePlan) -> list[TopicRestored]:
    """Restore every topic of *plan*. A topic that fails does not stop the others.

    Raises Refused: a group now has members, or the restore would wait in vain; nothing was changed.
    """
    require_no_members(work.run.client, (topic.groups for topic in plan.topics))
    if reason := hindrance(work.run.client, plan, work.how):
        raise Refused(reason)
    work.run.meter.total = plan.records
    return [_Topic(work, topic).restored() for topic in plan.topics]


def _restored_how(plan: TopicPlan) -> str:
    if plan.gaps:
        return "restored with gaps"
    if plan.salvaged:
        return "restored, salvaged"
    if plan.before_all:
        return "nothing restored"
    return "restored, not proved" if plan.unexplained or not plan.vouched else "restored"


class _Topic:
    def __init__(self, work: RestoreRun, plan: TopicPlan) -> None:
        self._work = work
        self._plan = plan
        self._report = TopicRestored(plan.topic, plan.target)
        self._report.gaps, self._report.salvaged = list(plan.gaps), plan.salvaged
        self._report.lost, self._report.vouched = list(plan.lost), plan.vouched
        self._report.unexplained, self._report.before_all = plan.unexplained, plan.before_all
        self._report.left_out, self._report.elsewhere = dict(plan.left_out), plan.elsewhere
        self._target = RestoreTarget(plan, work.run.client, work.topics, work.how)
        self._groups = GroupRestore(
            work.run.client.sender, work.topics.groups, work.journal, plan.target
        )
        self._request: int | None = None
        """The number of the request in the journal, once announced."""

    def restored(self) -> TopicRestored:
        try:
            with jvm_errors(f"restoring {self._plan.topic}"):
                self._restore()
        except BreakglassError as error:
            self._report.error = str(error)
            self._report.unknown = isinstance(error, OutcomeUnknown)
            state = read_state(Path(self._plan.state_folder))
            if isinstance(error, ForeignRecords) and state is not None:
                state.failing(str(error))
            if self._request is not None:
                # Committed records stay: --resume continues after them.
                result = "unknown" if self._report.unknown else "failed"
                failed = {"result": result, "reason": str(error)}
                self._work.journal.outcome(self._request, dict.fromkeys(self._items(), failed))
        return self._report

    def _restore(self) -> None:
        plan, work = self._plan, self._work
        if plan.nothing:
            self._report.settings_back = True
            return
        self._groups.snapshot(plan.groups)
        state = self._target.opened()
        tasks = [
            PartitionTask(
                topic=self._plan.target,
                partition=partition.partition,
                spans=partition.spans,
                segments=self._plan.stored[partition.partition],
                restore_id=state.restore_id,
                log=str(state.log_of(partition.partition)),
                records_a_transaction=self._work.how.records_a_transaction,
                transactional=state.transactional,
                alone=self._plan.empty,
            )
            for partition in self._plan.partitions
            if partition.records
        ]
        self._request = self._work.journal.request(
            RESTORE_RECORDS,
            self._items(),
            source=state.source,
            restore_id=state.restore_id,
            state=state.folder,
            settings=dict(state.settings),
            gaps=list(self._plan.gaps),
            salvaged=self._plan.salvaged,
            **({"left_out": dict(self._plan.left_out)} if self._plan.tail_of else {}),
        )
        if not state.proven:
            began = work.run.meter.seconds
            self._produce(tasks)
            self._report.seconds = work.run.meter.seconds - began
        maps = self._maps(tasks, self._target.require_same(state))
        self._report.declared = declared_in(
            run for offset_map in maps.values() for run in offset_map.runs
        )
        if not state.proven:
            self._judge(maps, state)
            if self._report.verified is not False:
                state = state.proved(verified=self._report.verified)
        if state.proven:
            self._report.verified = state.verified
            # Restore the settings of the topic and the offsets of groups.
            self._target.close(state)
            self._report.settings_back = True
            self._groups.restore(self._plan.groups, maps)
            self._report.groups_set, self._report.groups_failed = (
                self._groups.done,
                self._groups.failed,
            )
            if self._report.whole:
                state.done()
                self._forget(tasks)
        result = "differs" if self._report.verified is False else _restored_how(plan)
        done = {
            partition: {"result": result, "end": maps[partition.partition].end}
            for partition in self._items()
            if partition.partition in maps
        }
        work.journal.outcome(self._request, done)
        self._request = None

    def _items(self) -> dict[TopicPartition, dict[str, Any]]:
        return {
            TopicPartition(self._plan.target, partition.partition): {
                "start": partition.start,
                "end": partition.end,
                "records": partition.records,
                **({"spans": partition.spans} if self._plan.tail_of else {}),
            }
            for partition in self._plan.partitions
        }

    def _produce(self, tasks: Sequence[PartitionTask]) -> None:
        doing = f"restoring topic {self._plan.target}"
        with repeating(lambda: self._watch(tasks), WATCH_SECONDS):
            done = produce_by_tasks(self._work.run, self._work.cluster_id, tasks, doing)
        for restored in done:
            self._report.records += restored.records
            self._report.bytes += restored.bytes
        self._work.run.meter.count(self._plan.target, self._plan.records, self._report.bytes)
        failure = failures(done)
        if failure is not None:
            raise failure

    def _maps(self, tasks: Sequence[PartitionTask], now: TopicSource) -> dict[int, OffsetMap]:
        """The offset map of each partition, also of partitions without records."""
        ends = {source.partition.partition: source.high_watermark for source in now.partitions}
        maps = {
            partition.partition: OffsetMap((), (), (), ends.get(partition.partition, 0))
            for partition in self._plan.partitions
        }
        for task in tasks:
            runs = read_log(task.log_path).runs
            maps[task.partition] = OffsetMap(runs, task.segments, task.spans)
        return maps

    def _judge(self, maps: Mapping[int, OffsetMap], state: RestoreState) -> None:
        """Search for foreign records, then compare the records.

        Raises ForeignRecords: other writers have written to the topic.
        """
        foreign: list[Foreign] = []
        if self._plan.empty:
            foreign = foreign_records(
                self._work.run.client.sender,
                lambda: self._target.require_same(state),
                {number: offset_map.runs for number, offset_map in maps.items()},
                transactional=state.transactional,
            )
        if foreign and state.transactional:
            raise ForeignRecords(foreign_text(foreign))
        if self._work.how.verify:
            self._verify(maps, state)
        if foreign:
            # Without transactions, records sent before a kill may be among them.
            self._report.differences["extra"] = sum(other.count for other in foreign)
            self._report.verified = False

    def _verify(self, maps: Mapping[int, OffsetMap], state: RestoreState) -> None:
        """Compare the restored records with the backup, by their old offsets."""
        spans = {
            partition.partition: partition.spans
            for partition in self._plan.partitions
            if partition.records
        }
        ends = {number: maps[number].end for number in spans}
        planned = {partition.partition: partition.records for partition in self._plan.partitions}
        now = seen_to(lambda: self._target.require_same(state), ends)
        for part in prove(self._work.run, now, spans, maps, alone=self._plan.empty):
            found = dict(part.counts)
            compared = part.equal + part.expired
            compared += found.get("missing", 0) + found.get("different", 0)
            if compared != planned[part.partition]:
                # The plan and the comparison read the backup apart from one another.
                found["not compared"] = abs(planned[part.partition] - compared)
            if part.expired:
                found["missing"] = found.get("missing", 0) + part.expired
            self._report.differences = added(self._report.differences, found)
        for number, own in spans.items():
            require_unchanged(maps[number].stored, own)
        self._report.verified = not self._report.differences

    def _forget(self, tasks: Sequence[PartitionTask]) -> None:
        """Delete the group of the restore progress; a group that stays expires."""
        if not tasks or not tasks[0].transactional:
            return
        group, deadline = tasks[0].group, Deadline.after(patience.JOB)
        try:
            broker = find_coordinator(self._work.run.client.sender, group, deadline)
            self._work.topics.forget_group(broker, group, deadline)
        except BreakglassError as error:
            self._work.journal.note(f"group {group} stays: {error}")

    def _watch(self, tasks: Sequence[PartitionTask]) -> None:
        runs = [run for task in tasks for run in read_log(task.log_path).runs]
        self._work.run.meter.say(self._plan.target, sum(run.count for run in runs))
