"""What a restore tells participants, last of all: that it is whole, and what it has moved.

It is no marker in the topics, so it triggers no checkpoint. Until it is there the groups of a
restored topic do not know which checkpoint they are past, nor which records they read once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from breakglass.services.checkpoint.kafka.control import (
    Control,
    Created,
    MovedRecords,
    RestoredTopic,
)
from breakglass.services.checkpoint.kafka.control_log import (
    ensure_control,
    read_control,
    write_control,
)
from breakglass.services.checkpoint.kafka.stamps import RecordAddress
from breakglass.services.checkpoint.spark.copied_files import read_states
from breakglass.services.checkpoint.spark.restoring import CheckpointPlan, RestoredCopy
from breakglass.services.checkpoint.store.documents import CutDocument, GroupPolicy
from breakglass.services.errors import ClusterError, StorageError
from breakglass.services.kafka.marker_client import MarkerClient
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.restore.offset_log import read_log
from breakglass.services.pipeline.restore.offset_map import OffsetMap
from breakglass.services.pipeline.restore.proof import foreign_records, foreign_text
from breakglass.services.pipeline.restore.state import RestoreState, read_state
from breakglass.services.pipeline.source import TopicSource, WantedTopics, read_sources

ASK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Whole:
    """One restored topic whose participants have not been told."""

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
    """Write for each restored topic what its owners had saved, and then that it is whole.

    A topic whose participants were told before is left as it is: they may be at work. Returns,
    by its new name, each topic that somebody else has written into: why it can never be whole.
    Nothing is written then.

    Raises:
        StorageError: it is not known where records have gone.
        ClusterError, Unreachable, OutcomeUnknown: the control topic cannot be written; again.
    """
    deadline = Deadline.after(ASK_SECONDS)
    ensure_control(client, markers.topics, control_topic, deadline)
    known = read_control(client, control_topic, deadline) or Control()
    found = [_whole(client, plan, topic) for topic in sorted(plan.targets)]
    wholes = [one for one in found if not _is_told(known, one, plan)]
    foreign = {one.now.name: why for one in wholes if (why := _foreign(client, one))}
    if foreign:
        return foreign
    for record in _records(wholes, known, plan.found.id):
        write_control(client, markers, control_topic, record, Deadline.after(ASK_SECONDS))
    return {}


def _is_told(known: Control, one: _Whole, plan: CheckpointPlan) -> bool:
    before = known.restored.get(one.topic_id)
    return before is not None and before.id == plan.found.id


def _whole(client: ReadClient, plan: CheckpointPlan, topic: str) -> _Whole:
    folder = plan.state_folders[topic]
    state = read_state(folder)
    if state is None:
        raise StorageError(
            f"{folder}: nothing is known of the restore there: use the --state folder that it was "
            "begun with."
        )
    copies = tuple(one for one in plan.copies if one.topic == topic)
    maps = {one.number: _map(state, one) for one in copies}
    return _Whole(_read(client, state), state, copies, maps)


def _read(client: ReadClient, state: RestoreState) -> TopicSource:
    """The topic as it is now.

    Raises:
        ClusterError: it is not the one that was restored.
    """
    deadline = Deadline.after(ASK_SECONDS)
    there = client.partitions((state.target,), deadline)
    if not there or str(there[0].topic_id) != state.topic_id:
        raise ClusterError(
            f"topic {state.target} was deleted since it was restored: restore it again, with "
            "--resume where others are whole"
        )
    (now,) = read_sources(client, WantedTopics((state.target,)), deadline)
    return now


def _foreign(client: ReadClient, one: _Whole) -> str:
    """What somebody else has written into it; empty where nobody has.

    Raises:
        ClusterError, Unreachable: that cannot be read.
    """
    runs = {number: offsets.runs for number, offsets in one.maps.items()}
    state = one.state
    found = foreign_records(
        client.sender, lambda: _read(client, state), runs, transactional=state.transactional
    )
    if not found:
        return ""
    why = foreign_text(found)
    state.failing(why)
    return why


def _records(wholes: list[_Whole], known: Control, id: int) -> Iterator[tuple[bytes, bytes]]:
    last = []
    for one in wholes:
        for copy in one.copies:
            yield from _saved(copy, one.topic_id, one.maps[copy.number])
        moved = {
            copy.number: tuple(_moved(copy, one.maps[copy.number], known)) for copy in one.copies
        }
        last.append(RestoredTopic(one.topic_id, id, moved))
    for whole in last:
        yield whole.record


def _map(state: RestoreState, copy: RestoredCopy) -> OffsetMap:
    runs = read_log(state.log_of(copy.number)).runs
    return OffsetMap(runs, copy.stored(), state.spans.get(copy.number, ()))


def _saved(copy: RestoredCopy, topic_id: str, offsets: OffsetMap) -> Iterator[tuple[bytes, bytes]]:
    """The states of the partition's owners, as if they had come to the checkpoint here."""
    for group, state in sorted(read_states(copy.where).items()):
        position = offsets.new_of(copy.position)
        yield Created(group, topic_id, copy.number, copy.found.id, position, state).record


def _moved(copy: RestoredCopy, offsets: OffsetMap, known: Control) -> Iterator[MovedRecords]:
    """The records that a group reads once more: their outputs are to be told as they were."""
    start = _lowest(copy)
    identity = copy.identity().topic_id
    if start is None or start >= copy.position or identity is None:
        return
    before = known.restored.get(identity.hex)
    for old, new, count in offsets.stretches(start, copy.position):
        place = RecordAddress(identity.hex, copy.number, old)
        first = before and before.original(copy.number, old)
        yield MovedRecords(first or place, new, count)


def _lowest(copy: RestoredCopy) -> int | None:
    """Where the first group that processes at least once goes on, by the old offsets."""
    cut: CutDocument | None = copy.found.cut
    assert cut is not None
    offsets = [
        one.offsets[copy.one.number]
        for one in cut.groups.values()
        if one.policy is GroupPolicy.AT_LEAST_ONCE and copy.one.number in one.offsets
    ]
    return min(offsets, default=None)
