"""What a restore will do, worked out and shown before anything is changed."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

from services.errors import Refused, UsageError
from services.kafka.cluster.topic_config import read_topic_configs
from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.model import INTERNAL_TOPICS, Unknown
from services.pipeline.restore.group_choice import GroupsByPartition, groups_of, require_no_members
from services.pipeline.restore.settings import expired_at_once
from services.pipeline.restore.state import RestoreState, read_state
from services.pipeline.restore.task import Spans, runs_within
from services.pipeline.source import TopicSource, Wanted, read_sources
from services.pipeline.stored import StoredSegment, runs_between, stored_segments
from services.topic_backup.catalog import HeldTopic
from services.topic_backup.held import Held, read_held
from services.topic_backup.layout import topic_path
from services.topic_backup.store.store import LocalStore
from services.topic_backup.summary import PartitionSummary

ASK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """What is asked of a restore."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """New name by old one; a topic that is not named keeps its own."""
    partitions: Collection[int] = ()
    """Only these; all by default."""
    until_offset: int | None = None
    """Records from this offset on are left out."""
    until_ms: int | None = None
    """In each partition, everything from the first record later than this is left out."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Topic settings over those that were saved; an empty one leaves a saved one out."""
    groups: bool = False
    """Consumer groups get their offsets, too."""
    groups_at_ms: int | None = None
    """As they were at that time; the newest ones by default."""
    into_existing: bool = False
    """The target may hold records already."""
    resume: bool = False
    """The target is that of a restore that was ended before its time."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One partition."""

    partition: int
    start: int
    end: int
    """Stored offsets ``[start, end)``."""
    records: int
    bytes: int
    spans: Spans
    """Those of them that are restored."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic."""

    held: HeldTopic
    source: str
    """Its folder."""
    generation: int
    topic: str
    target: str
    exists: bool
    topic_id: str | None
    """Of the target that is there."""
    empty: bool
    """Nobody else has written into the target."""
    partition_count: int
    settings: Mapping[str, str]
    """Those that the topic has in the end."""
    partitions: tuple[PartitionPlan, ...]
    expired_at_once: int
    """About how many records these settings let the broker remove as soon as they are set."""
    groups: GroupsByPartition
    """Offsets that groups had committed, by partition; empty unless they are restored."""
    state_folder: str
    """Where it is kept how far the restore is."""
    resumed: bool
    tail_of: str = ""
    """The replica or folder whose tail it is; empty: it is no tail."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Records of a tail that are not put back, by reason."""
    stored: Mapping[int, Sequence[StoredSegment]] | None = None
    """The segments of each partition, where they do not lie in one folder."""

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        names = {one.name for one in fields(self)} - {"held", "stored"}
        return {name: getattr(self, name) for name in sorted(names)}

    @property
    def nothing(self) -> bool:
        """Whether all of a tail is there already, so that the topic is left as it is."""
        return bool(self.tail_of) and not self.records and not self.resumed

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.partitions)


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """A whole restore."""

    cluster_id: str
    topics: tuple[TopicPlan, ...]

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return {"cluster_id": self.cluster_id, "topics": [one.document() for one in self.topics]}

    @property
    def records(self) -> int:
        return sum(one.records for one in self.topics)

    @property
    def phrase(self) -> str:
        """What has to be typed: ``restore 1,000 records into orders``."""
        targets = list(dict.fromkeys(one.target for one in self.topics))
        into = targets[0] if len(targets) == 1 else f"{len(targets):,} topics"
        return f"restore {self.records:,} records into {into}"


def make_plan(
    client: ReadClient, held: Sequence[HeldTopic], options: RestoreOptions, state_root: Path
) -> RestorePlan:
    """What restoring *held* will do; *state_root* has a folder for each target.

    Raises:
        UsageError: two topics would have one name, or something is named that is not there.
        Refused: a target holds records, lacks partitions, or is being restored already; a group
            has members.
        MalformedInput, UnsupportedSchema, DamagedBackup: a backup cannot be read.
    """
    deadline = Deadline.after(ASK_SECONDS)
    cluster_id = client.describe(deadline).cluster_id
    targets = _targets(held, options)
    existing = tuple({one.partition.topic for one in client.partitions(targets, deadline)})
    now = {one.name: one for one in read_targets(client, existing, deadline)}
    plans = [
        _topic(one, target, now.get(target), options, state_root / target)
        for one, target in zip(held, targets, strict=True)
    ]
    require_no_members(client, (one.groups for one in plans))
    return RestorePlan(cluster_id, tuple(plans))


def read_targets(
    client: ReadClient, topics: Sequence[str], deadline: Deadline
) -> tuple[TopicSource, ...]:
    """The existing *topics* that are restored into.

    Raises:
        Refused: their settings, which have to be put back in the end, cannot be read.
    """
    if not topics:
        return ()
    for topic, config in read_topic_configs(client.sender, topics, deadline).items():
        if isinstance(config, Unknown):
            raise Refused(
                f"the settings of topic {topic} cannot be read ({config.reason}), so they could "
                "not be put back: grant that, then try again"
            )
    return read_sources(client, Wanted(tuple(topics)), deadline)


def _targets(held: Sequence[HeldTopic], options: RestoreOptions) -> list[str]:
    topics = {one.topic for one in held}
    absent = sorted(set(options.renamed) - topics)
    if absent:
        raise UsageError(
            f"--map names {', '.join(absent)}, which is not restored: check the spelling."
        )
    targets = [options.renamed.get(one.topic, one.topic) for one in held]
    if len(set(targets)) < len(targets):
        raise UsageError("Two topics would be restored into one: give each a name with --map.")
    for one in targets:
        topic_path(Path(), one)
        if one in INTERNAL_TOPICS:
            raise UsageError(f"{one} is Kafka's own: give it another name with --map.")
    return targets


def _topic(
    one: HeldTopic,
    target: str,
    now: TopicSource | None,
    options: RestoreOptions,
    state_folder: Path,
) -> TopicPlan:
    held = read_held(one.folder, one.topic)
    chosen = _chosen(held, options)
    begun = _begun(state_folder, one, target, now, options)
    if now is not None:
        needed = max((part.partition + 1 for part in chosen), default=0)
        ours = begun is not None and begun.topic_id is not None
        require_room(now, needed, filled=ours or options.into_existing)
    settings = _settings(held, now, begun, options)
    partitions = tuple(_partition(held, part, options) for part in chosen)
    if begun is not None and options.resume:
        partitions = _as_begun(held, begun, partitions)
    return TopicPlan(
        held=one,
        source=source_of(one),
        generation=one.generation,
        topic=one.topic,
        target=target,
        exists=now is not None,
        topic_id=None if now is None else str(now.identity.topic_id),
        empty=not options.into_existing if begun is None else begun.alone,
        partition_count=held.partition_count,
        settings=settings,
        partitions=partitions,
        expired_at_once=sum(
            expired_at_once(settings, part.segments, int(time.time() * 1000)) for part in chosen
        ),
        groups=groups_of(held, chosen, options.groups_at_ms) if options.groups else {},
        state_folder=str(state_folder.absolute()),
        resumed=options.resume,
    )


def _chosen(held: Held, options: RestoreOptions) -> list[PartitionSummary]:
    there = {one.partition for one in held.partitions}
    absent = sorted(set(options.partitions) - there)
    if absent:
        raise UsageError(
            f"{held.folder.where()} holds nothing of partition {absent[0]}: it holds "
            f"{', '.join(map(str, sorted(there)))}."
        )
    wanted = options.partitions or there
    return [part for part in held.partitions if part.partition in wanted]


def _begun(
    folder: Path, one: HeldTopic, target: str, now: TopicSource | None, options: RestoreOptions
) -> RestoreState | None:
    """The restore into *target* that was begun and not ended.

    Raises:
        UsageError: it is to be gone on with, and cannot be.
        Refused: another one is to be begun beside it.
    """
    state = read_state(folder)
    if state is not None and state.ended:
        state = None
    topic_id = None if now is None else str(now.identity.topic_id)
    if options.resume:
        return _resumable(state, one, target, topic_id, folder)
    if state is None or topic_id is None or state.topic_id not in (None, topic_id):
        return None
    if state.topic_id is not None:
        raise Refused(
            f"a restore into {target} was begun and has not ended: go on with --resume; or delete "
            "the topic to begin anew"
        )
    return state


def _resumable(
    state: RestoreState | None, one: HeldTopic, target: str, topic_id: str | None, folder: Path
) -> RestoreState:
    if state is None:
        raise UsageError(
            f"no restore into {target} was begun and not ended, by {folder}: start without --resume"
        )
    if state.source != source_of(one):
        raise UsageError(
            f"the restore into {target} that was begun is of {state.source}: name that one"
        )
    if state.topic_id not in (None, topic_id):
        raise UsageError(
            f"topic {target} was deleted since its restore began: start without --resume"
        )
    return state


def _settings(
    held: Held, now: TopicSource | None, begun: RestoreState | None, options: RestoreOptions
) -> dict[str, str]:
    """What the topic has in the end."""
    if begun is not None:
        own = begun.settings
    elif now is not None:
        own = now.identity.config
    else:
        own = held.identity.config
    return {name: value for name, value in {**own, **options.settings}.items() if value}


def _as_begun(
    held: Held, begun: RestoreState, planned: Sequence[PartitionPlan]
) -> tuple[PartitionPlan, ...]:
    """The partitions as they were planned when the restore was begun, whatever came since.

    Raises:
        UsageError: fewer are named by now, or an earlier end.
    """
    now = {one.partition: one for one in planned}
    for number, spans in begun.spans.items():
        end = spans[-1][1] if spans else 0
        if number not in now or now[number].end < end:
            raise UsageError(
                f"the restore that was begun goes to offset {end} of partition {number}: go on "
                "with the --partitions and --until options that it was begun with"
            )
    parts = {one.partition: one for one in held.partitions}
    return tuple(
        partition_plan(number, stored_segments(held.folder, parts[number].segments), spans)
        for number, spans in begun.spans.items()
    )


def require_room(now: TopicSource, partitions: int, *, filled: bool) -> None:
    """Return if records can be restored into the topic that there is; *filled* if it may be.

    Raises:
        Refused: it holds records and that was not allowed, or lacks partitions.
    """
    if len(now.partitions) + len(now.unread) < partitions:
        raise Refused(
            f"topic {now.name} has fewer partitions than the {partitions} of the backup: restore "
            "into a topic of another name with --map"
        )
    if now.unread:
        number, reason = next(iter(now.unread.items()))
        raise Refused(
            f"{now.name}-{number} cannot be written ({reason}): run `breakglass triage`, then try "
            "again"
        )
    holding = [one.partition for one in now.partitions if one.high_watermark > one.log_start]
    if holding and not filled:
        raise Refused(
            f"topic {now.name} holds records ({holding[0]}): restore into a topic of another name "
            "with --map, or add --into-existing, or --resume to go on with a restore"
        )


def _partition(held: Held, part: PartitionSummary, options: RestoreOptions) -> PartitionPlan:
    stored = stored_segments(held.folder, part.segments)
    return partition_plan(part.partition, stored, _spans(stored, part, options))


def _spans(
    stored: Sequence[StoredSegment], part: PartitionSummary, options: RestoreOptions
) -> Spans:
    end = part.next_offset or 0
    if options.until_offset is not None:
        end = min(end, options.until_offset)
    if options.until_ms is not None:
        end = min(end, first_later(stored, part, options.until_ms))
    start = min((one.first_offset for one in stored), default=0)
    return ((start, end),) if start < end else ()


def partition_plan(number: int, stored: Sequence[StoredSegment], spans: Spans) -> PartitionPlan:
    """What restoring *spans* of the *stored* segments comes to."""
    runs = list(runs_within(stored, spans))
    return PartitionPlan(
        partition=number,
        start=spans[0][0] if spans else 0,
        end=spans[-1][1] if spans else 0,
        records=sum(len(run.offsets) for run in runs),
        bytes=sum(len(run.data) for run in runs),
        spans=spans,
    )


def first_later(stored: Sequence[StoredSegment], part: PartitionSummary, until_ms: int) -> int:
    """The offset of the first record with a timestamp after *until_ms*; the end without one."""
    newest = {one.prefix: one.max_timestamp for one in part.segments}
    for segment in stored:
        latest = newest.get(segment.prefix)
        if latest is None or latest <= until_ms:
            continue
        for run in runs_between([segment], segment.first_offset, segment.last_offset + 1):
            places = run.bounds[:-1, None] + np.arange(20)
            heads = run.data[places]
            kinds = heads[:, 8:12].copy().view(">i4")[:, 0]
            stamps = heads[:, 12:20].copy().view(">i8")[:, 0]
            late = np.flatnonzero((kinds >= 0) & (stamps > until_ms))
            if len(late):
                return int(run.offsets[late[0]])
    return part.next_offset or 0


def source_of(one: HeldTopic) -> str:
    """The address of its folder, wherever this is run next time."""
    return str(Path(one.where).absolute()) if isinstance(one.store, LocalStore) else one.where


def stored_of(plan: TopicPlan, number: int) -> list[StoredSegment]:
    """The stored segments of one partition of *plan*."""
    if plan.stored is not None:
        return list(plan.stored.get(number, ()))
    held = read_held(plan.held.folder, plan.topic)
    part = next((one for one in held.partitions if one.partition == number), None)
    return stored_segments(held.folder, part.segments) if part else []
