"""Plans the restore of a checkpoint: records up to the cut, records in transit, group offsets.

Uses one copy of each partition, all of the same id. The restore of topic backups writes the
records: it resumes after a crash and compares every record. `restore.complete` then tells the
participants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from breakglass.services import patience
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.spark.copied_files import (
    channel_store,
    segments_store,
    summary_of,
)
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import ManifestDocument
from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition
from breakglass.services.errors import Refused, StorageError, UsageError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.restore.groups import require_no_members
from breakglass.services.pipeline.restore.planned import (
    PartitionPlan,
    RestorePlan,
    TopicPlan,
    partition_plan,
)
from breakglass.services.pipeline.restore.state import RestoreState, read_state, require_hopeful
from breakglass.services.pipeline.restore.target import (
    existing,
    partition_count,
    read_targets,
    require_names,
    require_room,
)
from breakglass.services.pipeline.restore.task import Spans
from breakglass.services.pipeline.source import TopicSource
from breakglass.services.pipeline.stored_segments import StoredSegment, stored_segments
from breakglass.services.topic_backup.catalog import HeldTopic
from breakglass.services.topic_backup.manifest import TopicIdentity, read_manifest
from breakglass.services.topic_backup.store.store import Store, open_store

INSTEAD_OF_FILLED = (
    "restore into a topic of another name with --map or --suffix, or add --resume where a "
    "restore of this checkpoint was begun"
)


@dataclass(frozen=True, slots=True)
class CheckpointRestoreOptions:
    """The options of a restore."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """New topic name by old name; other topics keep their names."""
    resume: bool = False
    """The targets belong to an interrupted restore."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The effect of restoring a checkpoint."""

    found: StoredCheckpoint
    copies: Sequence[RestoredCopy]
    plan: RestorePlan
    """The plan of the topics that are not restored yet."""
    targets: Mapping[str, str]
    """New name of each topic."""
    state_folders: Mapping[str, Path]
    """By old name: the folder with the progress of each topic."""

    @property
    def phrase(self) -> str:
        """The phrase to type: ``restore checkpoint 3 with 1,000 records into bank``."""
        names = sorted(self.targets.values())
        into = names[0] if len(names) == 1 else f"{len(names):,} topics"
        records = f"{self.plan.records:,} records"
        return f"restore checkpoint {self.found.id} with {records} into {into}"


def make_plan(
    client: ReadClient,
    store: BackupStore,
    id: int,
    options: CheckpointRestoreOptions,
    state_root: Path,
) -> CheckpointPlan:
    """The effect of restoring checkpoint *id*; reads every byte of its copies.

    Raises:
        UsageError: there is no such checkpoint; or as `target_names` and `existing`.
        Refused: it is not completed; a target holds records, or has other partitions; a group has
            members.
        StorageError: a copy differs from what was committed.
    """
    found = _restorable(store, id)
    targets = target_names(found, options)
    copies = [RestoredCopy(store, found, partition) for partition in found.partitions]
    for copy in copies:
        copy.require_whole()
    topics = sorted(targets)
    deadline = Deadline.after(patience.JOB)
    cluster_id = client.describe(deadline).cluster_id
    there = existing(client, list(targets.values()), deadline)
    now = {target.name: target for target in read_targets(client, there, deadline)}
    folders = {topic: state_root / f"checkpoint-{id}" / targets[topic] for topic in topics}
    plans = []
    for topic in topics:
        own = [copy for copy in copies if copy.topic == topic]
        plan = _topic(own, targets[topic], now.get(targets[topic]), options, folders[topic])
        if plan is not None:
            plans.append(plan)
    require_no_members(client, (plan.groups for plan in plans))
    return CheckpointPlan(found, copies, RestorePlan(cluster_id, tuple(plans)), targets, folders)


def _restorable(store: BackupStore, id: int) -> StoredCheckpoint:
    found = store.read(id)
    if found is None:
        raise UsageError(f"There is no checkpoint {id} in {store.address}: run `checkpoint list`.")
    if found.status is not Status.COMPLETED or found.cut is None:
        raise Refused(
            f"checkpoint {id} is {found.status}, and only a completed one can be restored: see "
            f"`breakglass checkpoint status {id}`, choose another one"
        )
    return found


def target_names(found: StoredCheckpoint, options: CheckpointRestoreOptions) -> dict[str, str]:
    """The new name of each topic of *found*.

    Raises:
        UsageError: a named topic is not in the checkpoint; or as `require_names`.
    """
    topics = sorted(
        {partition.subject.topic for partition in found.partitions if partition.subject is not None}
    )
    absent = sorted(set(options.renamed) - set(topics))
    if absent:
        raise UsageError(
            f"--map names {', '.join(absent)}, which the checkpoint is not of: check the spelling."
        )
    targets = {topic: options.renamed.get(topic, topic) for topic in topics}
    require_names(list(targets.values()))
    return targets


@dataclass(frozen=True, slots=True)
class RestoredCopy:
    """The copy of one partition that is restored."""

    store: BackupStore
    found: StoredCheckpoint
    one: StoredPartition

    @property
    def topic(self) -> str:
        assert self.one.subject is not None
        return self.one.subject.topic

    @property
    def number(self) -> int:
        """The partition's number in its topic."""
        assert self.one.subject is not None
        return self.one.subject.partition

    @property
    def position(self) -> int:
        """The cut."""
        assert self.found.cut is not None
        return self.found.cut.positions[self.one.number]

    @property
    def where(self) -> str:
        """The address of the content."""
        return self.store.copies.contents(self._id).where()

    @property
    def _id(self) -> CopyId:
        assert self.one.counting is not None
        return self.one.counting.id

    @property
    def node(self) -> int:
        """The node that copied."""
        return self._id.node

    @property
    def manifest(self) -> ManifestDocument:
        """What was committed."""
        assert self.one.counting is not None
        assert self.one.counting.manifest is not None
        return self.one.counting.manifest

    def require_whole(self) -> None:
        """Return if every file is as committed, and from the log on which the cut was decided.

        Raises:
            StorageError: a file differs.
        """
        wrong = self.wrong()
        if wrong:
            raise StorageError(
                f"{wrong}: bring it back from another copy of the store, or choose another "
                "checkpoint."
            )

    def wrong(self) -> str:
        """What is wrong with the copy, every byte read; empty if nothing is wrong.

        Raises:
            StorageError: the store does not answer.
        """
        return self._misplaced() or self.store.copies.damaged(self._id) or self._other_log()

    def _misplaced(self) -> str:
        """Why the copy does not end at the cut; empty if it does."""
        ends = self.manifest.position
        if ends == self.position:
            return ""
        where = f"{self.topic}-{self.number}"
        return f"the copy of {where} ends at {ends}, and the cut is at {self.position}"

    def _other_log(self) -> str:
        """Why the copy is from another log than the cut; empty if nothing shows that (H10)."""
        assert self.found.cut is not None
        wanted = self.found.cut.epochs.get(self.one.number)
        if wanted is None:
            return ""
        copied = summary_of(segments_store(self.where).folder(self.topic), self.number).end_epoch
        if copied is None or copied == wanted:
            return ""
        return (
            f"leader epoch diverged: offset {self.position - 1} of {self.topic}-{self.number} was "
            f"of epoch {wanted} when the checkpoint was cut, and what was copied is of {copied}"
        )

    def identity(self) -> TopicIdentity:
        """The identity of the copied topic."""
        manifest = read_manifest(segments_store(self.where).folder(self.topic))
        assert manifest is not None
        return manifest.identity

    def stored(self) -> tuple[StoredSegment, ...]:
        """The segments up to the cut, and the segments after the cut."""
        stores = [segments_store(self.where)]
        if self._in_transit:
            stores.append(channel_store(self.where))
        return tuple(
            segment for store in stores for segment in _segments(store, self.topic, self.number)
        )

    @property
    def _in_transit(self) -> tuple[int, ...]:
        assert self.found.cut is not None
        return self.found.cut.in_transit.get(self.one.number, ())

    def plan(self) -> PartitionPlan:
        """The complete plan."""
        end = max([self.position, *(number + 1 for number in self._in_transit)])
        stored = self.stored()
        start = min((segment.first_offset for segment in stored), default=0)
        spans: Spans = ((start, end),) if start < end and stored else ()
        return partition_plan(self.number, stored, spans)

    def groups(self) -> dict[str, int]:
        """Where each group resumes, by the old offsets."""
        assert self.found.cut is not None
        return {
            name: group.offsets[self.one.number]
            for name, group in self.found.cut.groups.items()
            if self.one.number in group.offsets
        }


def _segments(store: Store, topic: str, number: int) -> list[StoredSegment]:
    folder = store.folder(topic)
    return stored_segments(folder, summary_of(folder, number).segments)


def _topic(
    copies: Sequence[RestoredCopy],
    target: str,
    now: TopicSource | None,
    options: CheckpointRestoreOptions,
    state_folder: Path,
) -> TopicPlan | None:
    """The plan of one topic; None if the topic is already restored."""
    source = f"{copies[0].store.address}#{copies[0].found.id}"
    begun = _begun(state_folder, source, target, now, options)
    if begun is not None and begun.ended:
        return None
    _require_target(now, len(copies), filled=begun is not None and begun.topic_id is not None)
    identity = copies[0].identity()
    saved = begun.settings if begun else now.identity.config if now else identity.config
    groups = {copy.number: copy.groups() for copy in copies}
    return TopicPlan(
        held=HeldTopic(copies[0].topic, 1, open_store(copies[0].where)),
        source=source,
        generation=1,
        topic=copies[0].topic,
        target=target,
        exists=now is not None,
        topic_id=None if now is None else str(now.identity.topic_id),
        empty=True,
        partition_count=len(copies),
        settings=saved,
        partitions=tuple(copy.plan() for copy in copies),
        expired_at_once=0,
        groups={number: held for number, held in groups.items() if held},
        state_folder=str(state_folder.absolute()),
        resumed=begun is not None,
        stored={copy.number: copy.stored() for copy in copies},
    )


def _require_target(now: TopicSource | None, partitions: int, *, filled: bool) -> None:
    if now is None:
        return
    there = partition_count(now)
    if there != partitions:
        raise Refused(
            f"the number of partitions of topic {now.name} is {there:,}, and {partitions:,} in the "
            "checkpoint: restore into a topic of another name with --map"
        )
    require_room(now, filled=filled, instead=INSTEAD_OF_FILLED)


def _begun(
    folder: Path,
    source: str,
    target: str,
    now: TopicSource | None,
    options: CheckpointRestoreOptions,
) -> RestoreState | None:
    """The unfinished restore into *target* that is resumed.

    Raises:
        Refused: another restore was begun there, or it has failed permanently.
    """
    state = read_state(folder)
    topic_id = None if now is None else str(now.identity.topic_id)
    require_hopeful(state, topic_id)
    if state is None or state.topic_id not in (None, topic_id):
        return None
    if options.resume and state.source == source:
        return state
    if state.topic_id is None or state.ended:
        return None
    raise Refused(
        f"a restore into {target} was begun and has not ended: resume it with --resume, or "
        "delete the topic to start over"
    )
