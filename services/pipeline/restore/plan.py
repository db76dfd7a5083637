"""Plans a restore before anything changes; refuses what cannot be restored.

Chooses the latest record of each key, as compaction does, for a restore of these alone.

Says at once what a restore would wait for in vain: a coordinator, or the end of a transaction. The
coordinator of a transactional id leads a partition of `__transaction_state`, and the progress of a
restore is committed to one of `__consumer_offsets`, in the same transaction. Which partitions
follows from names that contain a random id, so a partition without leader may stop any of them.
What is restored is compared as read_committed consumers read it. They stop at the first open
transaction, and where a coordinator has lost it, no coordinator ends it (R18). The transaction of
a restore that was killed is no hindrance to its resume, whose producer aborts it first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError, Refused, UsageError
from breakglass.services.kafka.cluster.group_offsets import OFFSETS_TOPIC
from breakglass.services.kafka.cluster.open_transactions import (
    OpenTransaction,
    read_open_transactions,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.pipeline.batches.columns import NULL
from breakglass.services.pipeline.batches.record_batch import stored_columns
from breakglass.services.pipeline.restore.groups import groups_of, lacking, require_no_members
from breakglass.services.pipeline.restore.options import (
    RestoreOptions,
    RestorePlan,
    RestoreSettings,
    TopicPlan,
    expired_at_once,
    partition_plan,
)
from breakglass.services.pipeline.restore.state import (
    RestoreState,
    as_begun,
    begun_restore,
    is_complete,
    own_settings,
    read_state,
    source_of,
)
from breakglass.services.pipeline.restore.target import (
    existing,
    partition_count,
    read_targets,
    require_room,
    target_names,
)
from breakglass.services.pipeline.restore.task import Spans, runs_within, transactional_id_of
from breakglass.services.pipeline.source import TopicSource
from breakglass.services.pipeline.stored_segments import (
    StoredSegment,
    runs_between,
    stored_segments,
)
from breakglass.services.topic_backup.catalog import HeldTopic, chosen_generation, newest, reach_of
from breakglass.services.topic_backup.folder_contents import (
    Lost,
    RestorableTopic,
    read_held,
    read_sound,
)
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.summary import GapReason, PartitionSummary
from breakglass.services.topic_backup.verification import (
    OLDER_MANIFEST,
    has_lost_manifest,
    is_older,
    uncommitted,
)
from breakglass.services.words.moments import time_text

DIGEST_BYTES = 16
"""Longer keys are remembered by a digest of this size."""


@dataclass(frozen=True, slots=True)
class LatestRecords:
    """The latest record of each key of one partition."""

    spans: Spans
    """Offsets in which every stored record is the latest of its key, and no deletion."""
    older: int
    """Records after which their key has another one."""
    deleted: int
    """Deletions that are the latest of their key."""
    keyless: int
    """Records without key, which compaction removes as well."""

    @property
    def left_out(self) -> dict[str, int]:
        counts = {
            "a later record has their key": self.older,
            "they delete their key": self.deleted,
            "they have no key": self.keyless,
        }
        return {reason: count for reason, count in counts.items() if count}


def latest_records(stored: Sequence[StoredSegment], spans: Spans) -> LatestRecords:
    """The latest record of each key in *spans* of the *stored* segments; reads every record.

    Raises MalformedInput, DamagedBackup, StorageError: the records cannot be read.
    """
    latest: dict[bytes, int] = {}
    """The number of the latest record of each key, counted over all records."""
    offsets, deletions, count, keyless = [], [], 0, 0
    for run in runs_within(stored, spans):
        columns = stored_columns(run)
        content = run.data.tobytes()
        ends = columns.keys.begins + columns.keys.lengths
        for number, (begin, end, length) in enumerate(
            zip(
                columns.keys.begins.tolist(),
                ends.tolist(),
                columns.keys.lengths.tolist(),
                strict=True,
            )
        ):
            if length == NULL:
                keyless += 1
                continue
            key = content[begin:end]
            if length > DIGEST_BYTES:
                key = blake2b(key, digest_size=DIGEST_BYTES + 1).digest()
            latest[key] = count + number
        offsets.append(columns.offsets)
        deletions.append(columns.values.lengths == NULL)
        count += len(columns)
    if not count:
        return LatestRecords((), 0, 0, 0)
    wanted = np.zeros(count, bool)
    wanted[np.fromiter(latest.values(), np.int64, len(latest))] = True
    deleting = wanted & np.concatenate(deletions)
    kept = wanted & ~deleting
    at = np.concatenate(offsets)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]]).astype(np.int8)))
    return LatestRecords(
        tuple(
            (int(at[first]), int(at[last - 1]) + 1)
            for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        ),
        count - len(latest) - keyless,
        int(deleting.sum()),
        keyless,
    )


def chosen_partitions(held: RestorableTopic, options: RestoreOptions) -> list[PartitionSummary]:
    """The partitions to restore. Raises UsageError if a named partition does not exist."""
    there = {partition.partition for partition in held.partitions}
    absent = sorted(set(options.partitions) - there)
    if absent:
        raise UsageError(
            f"{held.folder.where()} has no partition {absent[0]}: it has "
            f"{', '.join(map(str, sorted(there)))}."
        )
    wanted = options.partitions or there
    return [part for part in held.partitions if part.partition in wanted]


def chosen_spans(
    stored: Sequence[StoredSegment], part: PartitionSummary, options: RestoreOptions
) -> Spans:
    """The stored offsets of one partition to restore; empty if it has no records."""
    end = part.next_offset or 0
    if options.until_offset is not None:
        end = min(end, options.until_offset)
    if options.until_ms is not None:
        end = min(end, _first_later(stored, part, options.until_ms))
    start = min((segment.first_offset for segment in stored), default=0)
    return ((start, end),) if start < end else ()


def _first_later(stored: Sequence[StoredSegment], part: PartitionSummary, until_ms: int) -> int:
    """The offset of the first record with a timestamp after *until_ms*, or the end."""
    newest = {segment.prefix: segment.max_timestamp for segment in part.segments}
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


MOST_NAMED = 20


def require_manifest(held: RestorableTopic) -> None:
    """Check that the manifest of *held* is not lost.

    Raises Refused: side files show that there was a manifest, or a newer one.
    """
    where = held.folder.where()
    if is_older(held.folder, held.manifest):
        raise Refused(f"the manifest of {where} is not the last one: {OLDER_MANIFEST}")
    if held.manifest is None and has_lost_manifest(held.folder.names()):
        raise Refused(
            f"the manifest of {where} is lost, so the content of the backup is unknown: copy it "
            f"from another copy, or write what can be proved with `breakglass backup repair "
            f"{where} --out DIR` and restore that"
        )


def accepted_gaps(
    held: RestorableTopic, topic: str, chosen: Sequence[PartitionSummary], options: RestoreOptions
) -> tuple[str, ...]:
    """The accepted gaps: offsets that the restore of *chosen* leaves out.

    Raises Refused: a gap is not accepted; the message names all such gaps.
    """
    numbers = {part.partition for part in chosen}
    lost = [loss for loss in held.lost if loss.partition in numbers and loss.what.offsets]
    phrases = tuple(dict.fromkeys(loss.phrase(topic) for loss in lost))
    agreed = {" ".join(phrase.split()) for phrase in options.accepted_gaps}
    missing = [phrase for phrase in phrases if phrase not in agreed]
    if not missing:
        return phrases
    why = {loss.phrase(topic): f"{loss.what.file}: {loss.what.reason}" for loss in lost}
    gaps = "; ".join(f"{phrase} ({why[phrase]})" for phrase in missing[:MOST_NAMED])
    options_to_add = " ".join(f'--accept-gaps "{phrase}"' for phrase in missing)
    where = held.folder.where()
    raise Refused(
        f"the backup of {topic} is damaged at {gaps}: copy the files from another copy, which "
        f"loses nothing; or write what can be proved with `breakglass backup repair {where} "
        f"--out DIR`{_salvageable(held, lost)}, and restore that; or leave all of these offsets "
        f"out with {options_to_add}"
    )


def _salvageable(held: RestorableTopic, lost: Sequence[Lost]) -> str:
    """How many records of damaged segments a salvaged copy has; reads them."""
    damaged = {loss.prefix for loss in lost}
    there = records = 0
    for part in held.manifest.partitions if held.manifest else ():
        reader = PartitionReader(held.folder, part.partition, part)
        for segment in reader.segments:
            if segment.summary is not None and segment.summary.prefix in damaged:
                records += segment.summary.count
                there += sum(1 for _ in reader.of_segment(segment))
    return f", which has {there:,} of their {records:,} records" if records else ""


INSTEAD_OF_FILLED = (
    "restore into a topic of another name with --map, or add --into-existing, or resume "
    "a restore with --resume"
)


INSTEAD_OF_COMPLETE = (
    "a restore into it is complete; restore into a topic of another name with --map, or add "
    "--into-existing to have the records twice"
)


def make_plan(
    client: ReadClient, held: Sequence[HeldTopic], options: RestoreOptions, state_root: Path
) -> RestorePlan:
    """Plan the restore of a generation of each topic in *held*, which has all of them.

    *state_root* has a folder for each target.

    Raises:
        UsageError: two topics would have one name, or a named topic, generation or partition does
            not exist.
        Refused: an older generation reaches the limits of the restore; a target has records, lacks
            partitions, or is already being restored; a group has members.
        MalformedInput, UnsupportedSchema, DamagedBackup: a backup cannot be read.
    """
    wanted, others = chosen_topics(held, options)
    targets = target_names(wanted, options)
    deadline = Deadline.after(patience.JOB)
    cluster_id = client.describe(deadline).cluster_id
    there = existing(client, targets, deadline)
    now = {topic.name: topic for topic in read_targets(client, there, deadline)}
    plans = [
        replace(
            _topic(one, target, now.get(target), options, state_root / target),
            others=others[one.topic],
        )
        for one, target in zip(wanted, targets, strict=True)
    ]
    require_no_members(
        client, (plan.groups for plan in plans), or_else=", or restore without --groups"
    )
    return RestorePlan(cluster_id, tuple(plans))


def chosen_topics(
    held: Sequence[HeldTopic], options: RestoreOptions
) -> tuple[list[HeldTopic], dict[str, list[str]]]:
    """The generation of each topic in *held* to restore, and what the others have, by topic.

    Raises: as `chosen_generation`.
        UsageError: a generation of several topics is wanted.
    """
    topics = [one.topic for one in newest(held)]
    if options.generation is not None and len(topics) > 1:
        raise UsageError("--generation is of one topic: name that with --topics.")
    wanted, others = [], {}
    for topic in topics:
        found = [reach_of(one) for one in sorted(held) if one.topic == topic]
        limits = options.until_ms, options.until_offset
        one = chosen_generation(found, options.generation, *limits)
        wanted.append(one.topic)
        others[topic] = [str(other) for other in found if other is not one]
    return wanted, others


def before_all(held: RestorableTopic, options: RestoreOptions, spans: Mapping[int, Spans]) -> str:
    """Why the limits of the restore leave nothing of a backup that has records (B27)."""
    times = [
        segment.first_timestamp
        for part in chosen_partitions(held, options)
        for segment in part.segments
        if segment.count
    ]
    limited = options.until_ms is not None or options.until_offset is not None
    if not (limited and times) or any(spans.values()):
        return ""
    first = min((at for at in times if at is not None), default=None)
    return (
        f"no record of {held.folder.where()} is before that point, its first is of "
        f"{time_text(first)}: what the topic had then is not known"
    )


def _topic(
    topic: HeldTopic,
    target: str,
    now: TopicSource | None,
    options: RestoreOptions,
    state_folder: Path,
) -> TopicPlan:
    held, names = read_held(topic.folder, topic.topic), topic.folder.names()
    require_manifest(held)
    chosen = chosen_partitions(held, options)
    lost = [f"{topic.topic}-{part.partition} {gone}" for part in chosen for gone in part.lost]
    held = read_sound(held, {part.partition for part in chosen})
    chosen = chosen_partitions(held, options)
    gaps = accepted_gaps(held, topic.topic, chosen, options)
    begun = begun_restore(state_folder, topic, target, now, options)
    if now is not None:
        needed = max((part.partition + 1 for part in chosen), default=0)
        if partition_count(now) < needed:
            raise Refused(
                f"topic {now.name} has fewer partitions than the {needed} of the backup: restore "
                "into a topic of another name with --map"
            )
        ours = begun is not None and begun.topic_id is not None
        instead = INSTEAD_OF_COMPLETE if is_complete(state_folder, now) else INSTEAD_OF_FILLED
        require_room(now, filled=ours or options.into_existing, instead=instead)
    settings = _settings(held, now, begun, options, state_folder.parent)
    stored = {part.partition: stored_segments(held.folder, part.segments) for part in chosen}
    spans = {part.partition: chosen_spans(stored[part.partition], part, options) for part in chosen}
    nothing_yet = before_all(held, options, spans)
    left_out: Counter[str] = Counter()
    if options.compacted and not options.resume:
        for number, own in spans.items():
            latest = latest_records(stored[number], own)
            spans[number] = latest.spans
            left_out.update(latest.left_out)
    partitions = tuple(partition_plan(number, stored[number], own) for number, own in spans.items())
    if begun is not None and options.resume:
        partitions = as_begun(held, begun, partitions)
    return TopicPlan(
        held=topic,
        source=source_of(topic),
        generation=topic.generation,
        topic=topic.topic,
        target=target,
        exists=now is not None,
        topic_id=None if now is None else str(now.identity.topic_id),
        empty=not options.into_existing if begun is None else begun.alone,
        partition_count=held.partition_count,
        more_partitions=0 if now is None else partition_count(now) - held.partition_count,
        settings=settings,
        partitions=partitions,
        expired_at_once=sum(expired_at_once(settings, part.segments, now_ms()) for part in chosen),
        groups=groups_of(held, chosen, options.groups_at_ms) if options.groups else {},
        state_folder=str(state_folder.absolute()),
        resumed=options.resume,
        left_out=dict(left_out),
        stored=stored,
        gaps=gaps,
        lost=lost,
        groups_lacking=lacking(held, chosen, options.groups_at_ms) if options.groups else (),
        salvaged=held.salvaged,
        vouched=held.manifest is not None,
        before_all=nothing_yet,
        uncommitted=[str(one) for one in uncommitted(topic.folder, names, held.manifest)]
        if held.manifest is not None
        else (),
        unexplained=sum(
            segment.missing.get(GapReason.UNKNOWN, 0)
            for part in chosen
            for segment in part.segments
        ),
    )


def _settings(
    held: RestorableTopic,
    now: TopicSource | None,
    begun: RestoreState | None,
    options: RestoreOptions,
    state_root: Path,
) -> dict[str, str]:
    own: Mapping[str, str]
    if begun is not None:
        own = begun.settings
    elif now is not None:
        own = own_settings(state_root, now)
    else:
        own = held.identity.config
    return {name: value for name, value in {**own, **options.settings}.items() if value}


TRANSACTIONS_TOPIC = "__transaction_state"
NAMED = 3
"""More partitions than these are counted."""
LOOK_SECONDS = 0.5


def hindrance(client: ReadClient, plan: RestorePlan, how: RestoreSettings) -> str:
    """Why the restore of *plan* would wait in vain, and what to do; empty if nothing shows that."""
    if not plan.records:
        return ""
    offline = _offline_coordinators(client) if how.transactional else ""
    return offline or (_left_open(client, plan) if how.verify else "")


def _offline_coordinators(client: ReadClient) -> str:
    """Why transactions would wait.

    A topic that does not exist yet is made when it is first needed. Topics that this user may not
    describe are not known to be offline.
    """
    offline: list[str] = []
    for topic in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC):
        try:
            states = client.partitions([topic], Deadline.after(patience.REQUEST))
        except BreakglassError:
            continue
        offline += [str(state.partition) for state in states if state.offline]
    if not offline:
        return ""
    more = f" and {len(offline) - NAMED:,} more" if len(offline) > NAMED else ""
    have = "has" if len(offline) == 1 else "have"
    return (
        f"{', '.join(offline[:NAMED])}{more} {have} no leader, and the transactions of a restore "
        "would wait for one: recover internal topics first (breakglass triage), or restore with "
        "--no-transactions"
    )


def _left_open(client: ReadClient, plan: RestorePlan) -> str:
    """Why restored records could not be compared: a transaction that stays open.

    Producers at work have transactions open all the time; each of them has time to end.
    """
    give_up = Deadline.after(patience.REQUEST)
    resumed = [topic for topic in plan.topics if topic.resumed]
    begun = [(topic, read_state(Path(topic.state_folder))) for topic in resumed]
    # An earlier run of the plan has used these.
    own = frozenset(
        transactional_id_of(state.restore_id, topic.target, partition.partition)
        for topic, state in begun
        if state is not None
        for partition in topic.partitions
    )
    first = _open_on(client, plan, own)
    left = dict(first)
    while left and not give_up.passed:
        lost = next((one for one in left.values() if one.hanging is True), None)
        if lost is not None:
            return _text(lost)
        time.sleep(LOOK_SECONDS)
        now = _open_on(client, plan, own)
        left = {key: now[key] for key in first.keys() & now.keys()}
    return _text(next(iter(left.values()))) if left else ""


_Key = tuple[TopicPartition, int, int]
"""Of a transaction: its partition, its producer id, and its first offset."""


def _open_on(
    client: ReadClient, plan: RestorePlan, own: Container[str]
) -> dict[_Key, OpenTransaction]:
    """The open transactions on the partitions of *plan*; none if they cannot be read.

    Left out are those of the transactional ids *own*, which their coordinator knows.
    """
    wanted = {
        TopicPartition(topic.target, partition.partition)
        for topic in plan.topics
        if topic.exists
        for partition in topic.partitions
        if partition.records
    }
    if not wanted:
        return {}
    deadline = Deadline.after(patience.REQUEST)
    try:
        states = client.partitions(sorted({one.topic for one in wanted}), deadline, wanted)
        leaders = {
            state.partition: state.leader
            for state in states
            if state.partition in wanted and state.leader is not None
        }
        live = client.describe(deadline).live
    except BreakglassError:
        return {}
    found = read_open_transactions(client.sender, leaders, live, deadline)
    if isinstance(found, Unknown):
        return {}
    return {
        (one.partition, one.producer_id, one.start_offset): one
        for one in found
        if one.hanging is not False or one.transactional_id not in own
    }


def _text(one: OpenTransaction) -> str:
    ends = (
        f"its coordinator says {one.coordinator_state}: its producer or its timeout ends it: wait "
        "for that"
        if one.hanging is False
        else "no coordinator is known to end it: end it with breakglass after transactions finish"
    )
    return (
        f"{one.partition} has a transaction of producer {one.producer_id}, open since offset "
        f"{one.start_offset:,}: consumers that read committed records stop there, and what is "
        f"restored could not be compared; {ends}, or restore with --no-verify"
    )
