"""What a restore will do, worked out before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from services.clock import now_ms
from services.errors import Refused
from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.pipeline.restore.gap_choice import accepted_gaps, require_manifest
from services.pipeline.restore.group_choice import groups_of, require_no_members
from services.pipeline.restore.options import RestoreOptions
from services.pipeline.restore.planned import (
    PartitionPlan,
    RestorePlan,
    TopicPlan,
    partition_plan,
)
from services.pipeline.restore.resuming import as_begun, begun_restore, source_of
from services.pipeline.restore.settings import expired_at_once
from services.pipeline.restore.span_choice import chosen_partitions, chosen_spans
from services.pipeline.restore.state import RestoreState
from services.pipeline.restore.target_choice import (
    existing,
    partition_count,
    read_targets,
    require_room,
    target_names,
)
from services.pipeline.source import TopicSource
from services.pipeline.stored_segments import stored_segments
from services.topic_backup.catalog import HeldTopic
from services.topic_backup.held import RestorableTopic, read_held, read_sound
from services.topic_backup.summary import PartitionSummary

ASK_SECONDS = 60.0
INSTEAD_OF_FILLED = (
    "restore into a topic of another name with --map, or add --into-existing, or --resume to go on "
    "with a restore"
)


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
    targets = target_names(held, options)
    deadline = Deadline.after(ASK_SECONDS)
    cluster_id = client.describe(deadline).cluster_id
    there = existing(client, targets, deadline)
    now = {one.name: one for one in read_targets(client, there, deadline)}
    plans = [
        _topic(one, target, now.get(target), options, state_root / target)
        for one, target in zip(held, targets, strict=True)
    ]
    require_no_members(
        client, (one.groups for one in plans), or_else=", or restore without --groups"
    )
    return RestorePlan(cluster_id, tuple(plans))


def _topic(
    one: HeldTopic,
    target: str,
    now: TopicSource | None,
    options: RestoreOptions,
    state_folder: Path,
) -> TopicPlan:
    held = read_held(one.folder, one.topic)
    require_manifest(held)
    held = read_sound(held, {part.partition for part in chosen_partitions(held, options)})
    chosen = chosen_partitions(held, options)
    gaps = accepted_gaps(held, one.topic, chosen, options)
    begun = begun_restore(state_folder, one, target, now, options)
    if now is not None:
        _require_partitions(now, max((part.partition + 1 for part in chosen), default=0))
        ours = begun is not None and begun.topic_id is not None
        require_room(now, filled=ours or options.into_existing, instead=INSTEAD_OF_FILLED)
    settings = _settings(held, now, begun, options)
    partitions = tuple(_partition(held, part, options) for part in chosen)
    if begun is not None and options.resume:
        partitions = as_begun(held, begun, partitions)
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
        expired_at_once=sum(expired_at_once(settings, part.segments, now_ms()) for part in chosen),
        groups=groups_of(held, chosen, options.groups_at_ms) if options.groups else {},
        state_folder=str(state_folder.absolute()),
        resumed=options.resume,
        stored={part.partition: stored_segments(held.folder, part.segments) for part in chosen},
        gaps=gaps,
        salvaged=held.salvaged,
    )


def _require_partitions(now: TopicSource, needed: int) -> None:
    if partition_count(now) < needed:
        raise Refused(
            f"topic {now.name} has fewer partitions than the {needed} of the backup: restore into "
            "a topic of another name with --map"
        )


def _settings(
    held: RestorableTopic,
    now: TopicSource | None,
    begun: RestoreState | None,
    options: RestoreOptions,
) -> dict[str, str]:
    """What the topic has in the end."""
    if begun is not None:
        own = begun.settings
    elif now is not None:
        own = now.identity.config
    else:
        own = held.identity.config
    return {name: value for name, value in {**own, **options.settings}.items() if value}


def _partition(
    held: RestorableTopic, part: PartitionSummary, options: RestoreOptions
) -> PartitionPlan:
    stored = stored_segments(held.folder, part.segments)
    return partition_plan(part.partition, stored, chosen_spans(stored, part, options))
