"""A checkpoint as a plan of the restore of topics: prefix, what was in transit, groups' offsets.

All partitions of one id, one copy of each. The restore itself is that of topic backups, which
goes on where it was killed and compares every record; what remains is told to the participants
last (`completion.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
from breakglass.services.pipeline.restore.target_choice import (
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

ASK_SECONDS = 60.0
INSTEAD_OF_FILLED = (
    "restore into a topic of another name with --map or --suffix, or add --resume where a "
    "restore of this checkpoint was begun"
)


@dataclass(frozen=True, slots=True)
class CheckpointRestoreOptions:
    """What is asked of a restore."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """New name by old one; a topic that is not named keeps its own."""
    resume: bool = False
    """The targets are those of a restore that was ended before its time."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """What restoring a checkpoint will do."""

    found: StoredCheckpoint
    copies: Sequence[RestoredCopy]
    plan: RestorePlan
    """Of the topics that are not restored yet."""
    targets: Mapping[str, str]
    """New name of each topic."""
    state_folders: Mapping[str, Path]
    """By the old name: where it is kept how far each is."""

    @property
    def phrase(self) -> str:
        """What has to be typed: ``restore checkpoint 3 with 1,000 records into bank``."""
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
    """What restoring checkpoint *id* will do; every byte of its copies is read for that.

    Raises:
        UsageError: there is no such checkpoint; or as `target_names` and `existing`.
        Refused: it is not completed; a target holds records, or has other partitions; a group has
            members.
        StorageError: a copy is not what was committed.
    """
    found = _restorable(store, id)
    targets = target_names(found, options)
    copies = [RestoredCopy(store, found, one) for one in found.partitions]
    for one in copies:
        one.require_whole()
    topics = sorted(targets)
    deadline = Deadline.after(ASK_SECONDS)
    cluster_id = client.describe(deadline).cluster_id
    there = existing(client, list(targets.values()), deadline)
    now = {one.name: one for one in read_targets(client, there, deadline)}
    folders = {one: state_root / f"checkpoint-{id}" / targets[one] for one in topics}
    plans = []
    for topic in topics:
        own = [one for one in copies if one.topic == topic]
        plan = _topic(own, targets[topic], now.get(targets[topic]), options, folders[topic])
        if plan is not None:
            plans.append(plan)
    require_no_members(client, (one.groups for one in plans))
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
        UsageError: something is named that it is not of; or as `require_names`.
    """
    topics = sorted({one.subject.topic for one in found.partitions if one.subject is not None})
    absent = sorted(set(options.renamed) - set(topics))
    if absent:
        raise UsageError(
            f"--map names {', '.join(absent)}, which the checkpoint is not of: check the spelling."
        )
    targets = {one: options.renamed.get(one, one) for one in topics}
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
        """Of the partition in its topic."""
        assert self.one.subject is not None
        return self.one.subject.partition

    @property
    def position(self) -> int:
        """Of the cut."""
        assert self.found.cut is not None
        return self.found.cut.positions[self.one.number]

    @property
    def where(self) -> str:
        """Its content."""
        return self.store.copies.contents(self._id).where()

    @property
    def _id(self) -> CopyId:
        assert self.one.counting is not None
        return self.one.counting.id

    @property
    def node(self) -> int:
        """Who copied."""
        return self._id.node

    @property
    def manifest(self) -> ManifestDocument:
        """What was committed."""
        assert self.one.counting is not None
        assert self.one.counting.manifest is not None
        return self.one.counting.manifest

    def require_whole(self) -> None:
        """Return if every file is what was committed, of the log that the cut was decided on.

        Raises:
            StorageError: it is not.
        """
        wrong = self.wrong()
        if wrong:
            raise StorageError(
                f"{wrong}: bring it back from another copy of the store, or choose another "
                "checkpoint."
            )

    def wrong(self) -> str:
        """What is wrong with it, every byte read; empty where nothing is.

        Raises:
            StorageError: the store does not answer.
        """
        return self._misplaced() or self.store.copies.damaged(self._id) or self._other_log()

    def _misplaced(self) -> str:
        """Why it ends elsewhere than the cut; empty where it does not."""
        ends = self.manifest.position
        if ends == self.position:
            return ""
        where = f"{self.topic}-{self.number}"
        return f"the copy of {where} ends at {ends}, and the cut is at {self.position}"

    def _other_log(self) -> str:
        """Why the copy is of another log than the cut; empty where nothing says so (H10)."""
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
        """Of the topic that was copied."""
        manifest = read_manifest(segments_store(self.where).folder(self.topic))
        assert manifest is not None
        return manifest.identity

    def stored(self) -> tuple[StoredSegment, ...]:
        """The segments as far as the cut, and those behind it."""
        stores = [segments_store(self.where)]
        if self._in_transit:
            stores.append(channel_store(self.where))
        return tuple(one for store in stores for one in _segments(store, self.topic, self.number))

    @property
    def _in_transit(self) -> tuple[int, ...]:
        assert self.found.cut is not None
        return self.found.cut.in_transit.get(self.one.number, ())

    def plan(self) -> PartitionPlan:
        """All of it."""
        end = max([self.position, *(one + 1 for one in self._in_transit)])
        stored = self.stored()
        start = min((one.first_offset for one in stored), default=0)
        spans: Spans = ((start, end),) if start < end and stored else ()
        return partition_plan(self.number, stored, spans)

    def groups(self) -> dict[str, int]:
        """Where each group goes on, by the old offsets."""
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
    """The plan of one topic; None where nothing of it is left to be done."""
    source = f"{copies[0].store.address}#{copies[0].found.id}"
    begun = _begun(state_folder, source, target, now, options)
    if begun is not None and begun.ended:
        return None
    _require_target(now, len(copies), filled=begun is not None and begun.topic_id is not None)
    identity = copies[0].identity()
    saved = begun.settings if begun else now.identity.config if now else identity.config
    groups = {one.number: one.groups() for one in copies}
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
        partitions=tuple(one.plan() for one in copies),
        expired_at_once=0,
        groups={number: held for number, held in groups.items() if held},
        state_folder=str(state_folder.absolute()),
        resumed=begun is not None,
        stored={one.number: one.stored() for one in copies},
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
    """The restore into *target* that is gone on with.

    Raises:
        Refused: another one was begun there, or it has failed for good.
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
