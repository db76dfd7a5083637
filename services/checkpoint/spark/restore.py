"""Restores a checkpoint, and verifies its copies.

A restore uses one copy of each partition, all of the same id. The restore of topic backups writes
the records: it resumes after a crash and compares every record. Last of all the restored record in
the control topic tells participants that the topic is complete, and which records were moved. It is
no marker, so it triggers no checkpoint. Until it exists, the groups of a restored topic know
neither their checkpoint nor the records that they read again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import (
    Control,
    Created,
    MovedRecords,
    RecordAddress,
    RestoredTopic,
)
from breakglass.services.checkpoint.kafka.logs import ensure_control, read_control, write_control
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.spark.copied_files import (
    CHANNEL,
    SEGMENTS,
    committed,
    committed_folder,
    read_moved,
    read_states,
    summary_of,
)
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupPolicy,
    ManifestDocument,
    VerifiedDocument,
)
from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition
from breakglass.services.checkpoint.wording import RestoreAsked
from breakglass.services.clock import now_ms
from breakglass.services.errors import ClusterError, Refused, StorageError, UsageError
from breakglass.services.kafka.marker_client import MarkerClient
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.restore.groups import require_no_members
from breakglass.services.pipeline.restore.offset_map import OffsetMap, read_log
from breakglass.services.pipeline.restore.options import (
    PartitionPlan,
    RestorePlan,
    TopicPlan,
    partition_plan,
)
from breakglass.services.pipeline.restore.proof import foreign_records, foreign_text
from breakglass.services.pipeline.restore.restore import RestoreRun, TopicRestored
from breakglass.services.pipeline.restore.restore import restore as restore_topics
from breakglass.services.pipeline.restore.state import (
    RestoreState,
    own_settings,
    read_state,
    require_hopeful,
)
from breakglass.services.pipeline.restore.target import (
    existing,
    partition_count,
    read_targets,
    require_names,
    require_room,
)
from breakglass.services.pipeline.restore.task import Spans
from breakglass.services.pipeline.source import TopicSource, WantedTopics, read_sources
from breakglass.services.pipeline.stored_segments import StoredSegment, stored_segments
from breakglass.services.topic_backup.catalog import HeldTopic
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.manifest import TopicIdentity, read_manifest
from breakglass.services.topic_backup.store.blobs import Blobs
from breakglass.services.topic_backup.store.store import open_store

INSTEAD_OF_FILLED = (
    "restore into a topic of another name with --map or --suffix, or add --resume where a "
    "restore of this checkpoint was begun"
)


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The effect of restoring a checkpoint."""

    found: StoredCheckpoint
    copies: Sequence[RestoredCopy]
    plan: RestorePlan
    targets: Mapping[str, str]
    state_folders: Mapping[str, Path]
    """By old name: the folder with the progress of each topic."""

    @property
    def earlier(self) -> list[str]:
        """Targets that an earlier run restored; this one does not compare them again."""
        return sorted({*self.targets.values()} - {topic.target for topic in self.plan.topics})

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
    found: StoredCheckpoint,
    asked: RestoreAsked,
    state_root: Path,
) -> CheckpointPlan:
    """The effect of restoring the checkpoint *found*; reads every byte of its copies.

    Its documents are not read again: a store may answer each request with others (B36).

    Raises:
        UsageError: as `target_names` and `existing`.
        Refused: it is not completed; a target holds records, has other partitions, or lacks what an
            earlier run restored into it; a group has members.
        StorageError: a copy differs from what was committed.
    """
    id = found.id
    if found.status is not Status.COMPLETED or found.cut is None:
        raise Refused(
            f"checkpoint {id} is {found.status}, and only a completed one can be restored: see "
            f"`breakglass checkpoint show {id}`, choose another one"
        )
    targets = target_names(found, asked)
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
        plan = _topic(own, targets[topic], now.get(targets[topic]), asked, folders[topic])
        if plan is not None:
            plans.append(plan)
    require_no_members(client, (plan.groups for plan in plans))
    return CheckpointPlan(found, copies, RestorePlan(cluster_id, tuple(plans)), targets, folders)


def target_names(found: StoredCheckpoint, asked: RestoreAsked) -> dict[str, str]:
    """The new name of each topic of *found*.

    Raises UsageError: a named topic is not in the checkpoint; or as `require_names`.
    """
    topics = sorted({partition.topic for partition in found.topic_partitions})
    absent = sorted(set(asked.renamed) - set(topics))
    if absent:
        raise UsageError(
            f"--map names {', '.join(absent)}, which the checkpoint is not of: check the spelling."
        )
    targets = {topic: asked.renamed.get(topic, f"{topic}{asked.suffix}") for topic in topics}
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
        assert self.one.subject is not None
        return self.one.subject.partition

    @property
    def cut(self) -> CutDocument:
        assert self.found.cut is not None
        return self.found.cut

    @property
    def position(self) -> int:
        return self.cut.positions[self.one.number]

    @property
    def where(self) -> str:
        return self.store.copies.contents(self._id).where()

    @property
    def _id(self) -> CopyId:
        assert self.one.counting is not None
        return self.one.counting.id

    @property
    def node(self) -> int:
        return self._id.node

    @property
    def manifest(self) -> ManifestDocument:
        assert self.one.counting is not None
        assert self.one.counting.manifest is not None
        return self.one.counting.manifest

    def require_whole(self) -> None:
        """Return if every file is as committed, and from the log on which the cut was decided.

        Raises StorageError: a file differs.
        """
        wrong = self.wrong()
        if wrong:
            raise StorageError(
                f"{wrong}: bring it back from another copy of the store, or choose another "
                "checkpoint."
            )

    def wrong(self) -> str:
        """What is wrong with the copy, every byte read; empty if nothing is wrong.

        Raises StorageError: the store does not answer.
        """
        where = f"{self.topic}-{self.number}"
        if (ends := self.manifest.position) != self.position:
            return f"the copy of {where} ends at {ends}, and the cut is at {self.position}"
        if damage := self.store.copies.damaged(self._id, self.manifest):
            return damage
        wanted = self.cut.epochs.get(self.one.number)
        folder = self._folder(SEGMENTS)
        copied = None if wanted is None else summary_of(folder, self.number).end_epoch
        if copied is None or copied == wanted:
            return ""
        # The copy is from another log than the cut (H10).
        return (
            f"leader epoch diverged: offset {self.position - 1} of {where} was of epoch {wanted} "
            f"when the checkpoint was cut, and what was copied is of {copied}"
        )

    def files(self) -> Blobs:
        return committed(self.where, self.manifest.files)

    def _folder(self, kind: str) -> Folder:
        return committed_folder(self.where, kind, self.topic, self.manifest.files)

    def identity(self) -> TopicIdentity:
        manifest = read_manifest(self._folder(SEGMENTS))
        assert manifest is not None
        return manifest.identity

    def stored(self) -> tuple[StoredSegment, ...]:
        """The segments up to the cut, and the segments after the cut."""
        folders = [self._folder(SEGMENTS)]
        if self._in_transit:
            folders.append(self._folder(CHANNEL))
        return tuple(
            segment
            for folder in folders
            for segment in stored_segments(folder, summary_of(folder, self.number).segments)
        )

    @property
    def _in_transit(self) -> tuple[int, ...]:
        return self.cut.in_transit.get(self.one.number, ())

    def plan(self, stored: Sequence[StoredSegment]) -> PartitionPlan:
        """The plan to restore the *stored* segments of the copy."""
        end = max([self.position, *(number + 1 for number in self._in_transit)])
        start = min((segment.first_offset for segment in stored), default=0)
        spans: Spans = ((start, end),) if start < end and stored else ()
        return partition_plan(self.number, stored, spans)

    def groups(self, policy: GroupPolicy | None = None) -> dict[str, int]:
        """Where each group, or each of *policy*, resumes, by the old offsets."""
        return {
            name: group.offsets[self.one.number]
            for name, group in self.cut.groups.items()
            if self.one.number in group.offsets and policy in (None, group.policy)
        }


def _topic(
    copies: Sequence[RestoredCopy],
    target: str,
    now: TopicSource | None,
    asked: RestoreAsked,
    state_folder: Path,
) -> TopicPlan | None:
    """The plan of one topic; None if the topic is already restored."""
    first = copies[0]
    source = f"{first.store.address}#{first.found.id}"
    begun = _begun(state_folder, source, target, now, asked)
    if begun is not None and begun.ended:
        if now is not None:
            _require_kept(now, begun)
        return None
    if now is not None:
        there = partition_count(now)
        if there != len(copies):
            raise Refused(
                f"the number of partitions of topic {now.name} is {there:,}, and {len(copies):,} "
                "in the checkpoint: restore into a topic of another name with --map"
            )
        filled = begun is not None and begun.topic_id is not None
        require_room(now, filled=filled, instead=INSTEAD_OF_FILLED)
    identity = first.identity()
    if begun is not None:
        saved = begun.settings
    else:
        saved = own_settings(state_folder.parents[1], now) if now else identity.config
    groups = {copy.number: copy.groups() for copy in copies}
    stored = {copy.number: copy.stored() for copy in copies}
    return TopicPlan(
        held=HeldTopic(first.topic, 1, open_store(first.where)),
        source=source,
        generation=1,
        topic=first.topic,
        target=target,
        exists=now is not None,
        topic_id=None if now is None else str(now.identity.topic_id),
        empty=True,
        partition_count=len(copies),
        settings=saved,
        partitions=tuple(copy.plan(stored[copy.number]) for copy in copies),
        expired_at_once=0,
        groups={number: held for number, held in groups.items() if held},
        state_folder=str(state_folder.absolute()),
        resumed=begun is not None,
        stored=stored,
    )


def _require_kept(now: TopicSource, state: RestoreState) -> None:
    """Return if the logs still reach over all that an earlier run restored.

    Raises Refused: records were removed since, or a log cannot be read.
    """
    for live in now.partitions:
        number = live.partition.partition
        kept = OffsetMap(read_log(state.log_of(number)).runs, ())
        if kept.runs and not live.log_start <= kept.start <= kept.end <= live.high_watermark:
            raise Refused(
                f"an earlier run restored offsets {kept.start} to {kept.end - 1} of "
                f"{live.partition}, and its log now has {live.log_start} to "
                f"{live.high_watermark - 1}: delete topic {now.name} and restore it again"
            )
    if now.unread:
        number, reason = min(now.unread.items())
        raise Refused(
            f"an earlier run restored {now.name}-{number}, which cannot be read now ({reason}): "
            "bring its leader back, then run this again"
        )


def _begun(
    folder: Path,
    source: str,
    target: str,
    now: TopicSource | None,
    asked: RestoreAsked,
) -> RestoreState | None:
    """The unfinished restore into *target* that is resumed.

    Raises Refused: another restore was begun there, or it has failed permanently.
    """
    state = read_state(folder)
    topic_id = None if now is None else str(now.identity.topic_id)
    require_hopeful(state, topic_id)
    if state is None or state.topic_id not in (None, topic_id):
        return None
    if asked.resume and state.source == source:
        return state
    if state.topic_id is None or state.ended:
        return None
    raise Refused(
        f"a restore into {target} was begun and has not ended: resume it with --resume, or "
        "delete the topic to start over"
    )


@dataclass(frozen=True, slots=True)
class _Whole:
    """A restored topic that is not yet announced to its participants."""

    now: TopicSource
    state: RestoreState
    copies: tuple[RestoredCopy, ...]
    maps: Mapping[int, OffsetMap]

    @property
    def topic_id(self) -> str:
        assert self.now.identity.topic_id is not None
        return self.now.identity.topic_id.hex


def complete(
    client: ReadClient, markers: MarkerClient, plan: CheckpointPlan, control_topic: str
) -> dict[str, str]:
    """Write the owners' saved states of each restored topic, then the record that it is complete.

    A topic that was announced before stays as it is: its participants may be active. Returns, by
    its new name, each topic to which another client has written, with the reason why it can never
    be complete. In that case nothing is written.

    Raises:
        StorageError: the new offsets of the records are unknown.
        ClusterError, Unreachable, OutcomeUnknown: the control topic cannot be written; run again.
    """
    deadline = Deadline.after(patience.JOB)
    ensure_control(client, markers.topics, control_topic, deadline)
    known = read_control(client, control_topic, deadline) or Control()
    wholes = []
    for topic in sorted(plan.targets):
        folder = plan.state_folders[topic]
        state = read_state(folder)
        if state is None:
            raise StorageError(
                f"{folder}: nothing is known of the restore there: name by --progress the folder "
                "that it was begun with."
            )
        copies = tuple(copy for copy in plan.copies if copy.topic == topic)
        maps = {
            copy.number: OffsetMap(
                read_log(state.log_of(copy.number)).runs,
                copy.stored(),
                state.spans.get(copy.number, ()),
            )
            for copy in copies
        }
        whole = _Whole(_read(client, state), state, copies, maps)
        before = known.restored.get(whole.topic_id)
        if before is None or before.id != plan.found.id:
            wholes.append(whole)
    foreign: dict[str, str] = {}
    for whole in wholes:
        runs = {number: offsets.runs for number, offsets in whole.maps.items()}
        read, transactional = partial(_read, client, whole.state), whole.state.transactional
        found = foreign_records(client.sender, read, runs, transactional=transactional)
        if found:
            foreign[whole.now.name] = foreign_text(found)
            whole.state.failing(foreign[whole.now.name])
    if foreign:
        return foreign
    for record in _records(wholes, known, plan.found.id):
        write_control(client, markers, control_topic, record, Deadline.after(patience.JOB))
    return {}


def _read(client: ReadClient, state: RestoreState) -> TopicSource:
    """The topic as it is now. Raises ClusterError: it is not the restored topic."""
    deadline = Deadline.after(patience.JOB)
    there = client.partitions((state.target,), deadline)
    if not there or str(there[0].topic_id) != state.topic_id:
        raise ClusterError(
            f"topic {state.target} was deleted since it was restored: restore it again, with "
            "--resume where others are whole"
        )
    (now,) = read_sources(client, WantedTopics((state.target,)), deadline)
    return now


def _records(wholes: list[_Whole], known: Control, id: int) -> Iterator[tuple[bytes, bytes]]:
    last = []
    for one in wholes:
        moved = {}
        for copy in one.copies:
            # The states of the partition's owners, as if they had reached the checkpoint here.
            offsets = one.maps[copy.number]
            for group, state in sorted(read_states(copy.files()).items()):
                position = offsets.new_of(copy.position)
                yield Created(group, one.topic_id, copy.number, id, position, state).record
            moved[copy.number] = tuple(_moved(copy, offsets, known))
        last.append(RestoredTopic(one.topic_id, id, moved))
    for whole in last:
        yield whole.record


def _moved(copy: RestoredCopy, offsets: OffsetMap, known: Control) -> Iterator[MovedRecords]:
    """The records that a group reads again: their outputs keep their earlier identity."""
    # The lowest old offset at which an at-least-once group resumes.
    start = min(copy.groups(GroupPolicy.AT_LEAST_ONCE).values(), default=None)
    identity = copy.identity().topic_id
    if start is None or start >= copy.position or identity is None:
        return
    # The notes of an earlier restore are on the checkpoint's own cluster, and in the copy.
    noted = known.restored.get(identity.hex)
    before = read_moved(copy.files()) if noted is None else noted.moved.get(copy.number, ())
    for old, new, count in offsets.stretches(start, copy.position):
        place = RecordAddress(identity.hex, copy.number, old)
        yield from first_places(MovedRecords(place, new, count), before)


def first_places(records: MovedRecords, before: Sequence[MovedRecords]) -> Iterator[MovedRecords]:
    """*records* by the addresses that they had before an earlier restore, where *before* says so.

    *before* is in the order of the offsets at which that restore has written the records.
    """
    starts = [moved.new_offset for moved in before]
    offset, end = records.old.offset, records.old.offset + records.count
    while offset < end:
        after = bisect_right(starts, offset)
        moved = before[after - 1] if after else None
        stop = min([end, *starts[after : after + 1]])
        place = replace(records.old, offset=offset)
        if moved is not None and offset < moved.new_offset + moved.count:
            stop = min(stop, moved.new_offset + moved.count)
            place = replace(moved.old, offset=moved.old.offset + offset - moved.new_offset)
        new = records.new_offset + offset - records.old.offset
        yield MovedRecords(place, new, stop - offset)
        offset = stop


def restore(
    work: RestoreRun, markers: MarkerClient, plan: CheckpointPlan, control_topic: str
) -> list[TopicRestored]:
    """Restore what *plan* says; each topic's report contains its errors.

    Participants may start only if every topic is complete and no other client has written
    to it, so they are notified last (`complete`).

    Raises:
        Refused: a group has got members since; nothing was changed.
        ClusterError, Unreachable, OutcomeUnknown: the control topic cannot be written; run again.
    """
    done = restore_topics(work, plan.plan)
    if all(restored.whole for restored in done):
        foreign = complete(work.run.client, markers, plan, control_topic)
        for topic, target in plan.targets.items():
            if target not in foreign:
                continue
            work.journal.note(foreign[target])
            # An earlier run may have restored what is announced now.
            own = next((restored for restored in done if restored.target == target), None)
            if own is None:
                own = TopicRestored(topic, target, settings_back=True)
                done.append(own)
            own.error = foreign[target]
    return done


SIDE_BY_SIDE = 4
Tell = Callable[[int, str], None]
"""Called for each partition: its number, and what is wrong with it."""


def verify(
    store: BackupStore, found: StoredCheckpoint, tell: Tell, clock: Callable[[], int] = now_ms
) -> VerifiedDocument:
    """Read every file of *found*, and store the result.

    Raises:
        Refused: it is not completed.
        StorageError: the store does not answer; no result is stored.
    """
    if found.status is not Status.COMPLETED or found.cut is None:
        raise Refused(
            f"checkpoint {found.id} is {found.status}, and only a completed one can be verified: "
            f"see `breakglass checkpoint show {found.id}`"
        )
    copies = [RestoredCopy(store, found, partition) for partition in found.partitions]
    damage: dict[int, str] = {}
    with ThreadPoolExecutor(SIDE_BY_SIDE, "verify") as pool:
        for one, wrong in zip(copies, pool.map(RestoredCopy.wrong, copies), strict=True):
            tell(one.one.number, wrong)
            if wrong:
                damage[one.one.number] = wrong
    files = [file for copy in copies for file in copy.manifest.files]
    done = VerifiedDocument(
        clock(),
        {copy.one.number: copy.node for copy in copies},
        len(files),
        sum(file.size for file in files),
        damage,
    )
    store.note_verified(found.id, done)
    return done
