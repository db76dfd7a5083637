"""What a restore tells participants, last of all: that it is whole, and what it has moved.

It is no marker in the topics, so it triggers no checkpoint. Until it is there the groups of a
restored topic do not know which checkpoint they are past, nor which records they read once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from services.checkpoint.kafka.control import Control, Created, Moved, Restored
from services.checkpoint.kafka.control_log import ensure_control, read_control, write_control
from services.checkpoint.kafka.stamps import Place
from services.checkpoint.spark.copied_files import read_states
from services.checkpoint.spark.restoring import CheckpointPlan, Copied
from services.checkpoint.store.documents import CutDocument, Policy
from services.errors import StorageError
from services.kafka.marker_client import MarkerClient
from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.pipeline.restore.offset_log import read_log
from services.pipeline.restore.offset_map import OffsetMap
from services.pipeline.restore.state import read_state

ASK_SECONDS = 60.0


def complete(
    client: ReadClient, markers: MarkerClient, plan: CheckpointPlan, control_topic: str
) -> None:
    """Write for each restored topic what its owners had saved, and then that it is whole.

    Raises:
        StorageError: it is not known where records have gone.
        ClusterError, Unreachable, OutcomeUnknown: the control topic cannot be written; again.
    """
    deadline = Deadline.after(ASK_SECONDS)
    ensure_control(client, markers.topics, control_topic, deadline)
    known = read_control(client, control_topic, deadline) or Control()
    for record in _records(client, plan, known, deadline):
        write_control(client, markers, control_topic, record, deadline)


def _records(
    client: ReadClient, plan: CheckpointPlan, known: Control, deadline: Deadline
) -> Iterator[tuple[bytes, bytes]]:
    wholes = []
    for topic, target in sorted(plan.targets.items()):
        states = client.partitions((target,), deadline)
        topic_id = states[0].topic_id.hex
        copies = [one for one in plan.copies if one.topic == topic]
        maps = {one.number: _map(plan.state_folders[topic], one) for one in copies}
        for one in copies:
            yield from _saved(one, topic_id, maps[one.number])
        moved = {one.number: tuple(_moved(one, maps[one.number], known)) for one in copies}
        wholes.append(Restored(topic_id, plan.found.id, moved))
    for whole in wholes:
        yield whole.record


def _map(folder: Path, copy: Copied) -> OffsetMap:
    state = read_state(folder)
    if state is None:
        raise StorageError(
            f"{folder}: nothing is known of the restore there: use the --state folder that it was "
            "begun with."
        )
    runs = read_log(state.log_of(copy.number)).runs
    return OffsetMap(runs, copy.stored(), state.spans.get(copy.number, ()))


def _saved(copy: Copied, topic_id: str, offsets: OffsetMap) -> Iterator[tuple[bytes, bytes]]:
    """The states of the partition's owners, as if they had come to the checkpoint here."""
    for group, state in sorted(read_states(copy.where).items()):
        position = offsets.new_of(copy.position)
        yield Created(group, topic_id, copy.number, copy.found.id, position, state).record


def _moved(copy: Copied, offsets: OffsetMap, known: Control) -> Iterator[Moved]:
    """The records that a group reads once more: their outputs are to be told as they were."""
    start = _lowest(copy)
    identity = copy.identity().topic_id
    if start is None or start >= copy.position or identity is None:
        return
    before = known.restored.get(identity.hex)
    for old, new, count in offsets.stretches(start, copy.position):
        place = Place(identity.hex, copy.number, old)
        first = before and before.original(copy.number, old)
        yield Moved(first or place, new, count)


def _lowest(copy: Copied) -> int | None:
    """Where the first group that processes at least once goes on, by the old offsets."""
    cut: CutDocument | None = copy.found.cut
    assert cut is not None
    offsets = [
        one.offsets[copy.one.number]
        for one in cut.groups.values()
        if one.policy is Policy.AT_LEAST_ONCE and copy.one.number in one.offsets
    ]
    return min(offsets, default=None)
