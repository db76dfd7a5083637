"""The restore into a topic that was begun and has not ended: gone on with, or in the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from services.errors import Refused, UsageError
from services.pipeline.restore.options import RestoreOptions
from services.pipeline.restore.planned import PartitionPlan, partition_plan
from services.pipeline.restore.state import RestoreState, read_state
from services.pipeline.source import TopicSource
from services.pipeline.stored_segments import stored_segments
from services.topic_backup.catalog import HeldTopic
from services.topic_backup.held import RestorableTopic
from services.topic_backup.store.store import LocalStore


def begun_restore(
    folder: Path, one: HeldTopic, target: str, now: TopicSource | None, options: RestoreOptions
) -> RestoreState | None:
    """The restore into *target* that was begun and not ended.

    Raises:
        UsageError: it is to be gone on with, and cannot be.
        Refused: another one is to be begun beside it, or it has failed for good.
    """
    state = read_state(folder)
    topic_id = None if now is None else str(now.identity.topic_id)
    require_hopeful(state, topic_id)
    if state is not None and state.ended:
        state = None
    if options.resume:
        return _resumable(state, one, target, topic_id, folder)
    if state is None or topic_id is None or state.topic_id not in (None, topic_id):
        return None
    if state.topic_id is not None:
        raise Refused(
            f"a restore into {target} was begun and has not ended: resume it with --resume, or "
            "delete the topic to start over"
        )
    return state


def require_hopeful(state: RestoreState | None, topic_id: str | None) -> None:
    """Return unless *state* is of the topic with that id, and that can never be whole.

    Raises:
        Refused: it is.
    """
    if state is not None and state.failed and topic_id is not None and state.topic_id == topic_id:
        raise Refused(f"the restore into {state.target} has failed: {state.failed}")


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


def as_begun(
    held: RestorableTopic, begun: RestoreState, planned: Sequence[PartitionPlan]
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


def source_of(one: HeldTopic) -> str:
    """The address of its folder, wherever this is run next time."""
    return str(Path(one.where).absolute()) if isinstance(one.store, LocalStore) else one.where
