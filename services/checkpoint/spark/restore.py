"""Carries out the restore of a checkpoint, and last of all tells participants that it is complete.

The restored record in the control topic also lists the records that were moved. It is not a marker
in the topics, so it triggers no checkpoint. Until it exists, the groups of a restored topic know
neither their checkpoint nor the records that they read again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from breakglass.services import patience
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
from breakglass.services.checkpoint.spark.copied_files import read_moved, read_states
from breakglass.services.checkpoint.spark.restoring import CheckpointPlan, RestoredCopy
from breakglass.services.checkpoint.store.documents import CutDocument, GroupPolicy
from breakglass.services.errors import ClusterError, StorageError
from breakglass.services.kafka.marker_client import MarkerClient
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.restore.offset_map import OffsetMap, read_log
from breakglass.services.pipeline.restore.proof import foreign_records, foreign_text
from breakglass.services.pipeline.restore.restore import RestoreRun, TopicRestored
from breakglass.services.pipeline.restore.restore import restore as restore_topics
from breakglass.services.pipeline.restore.state import RestoreState, read_state
from breakglass.services.pipeline.source import TopicSource, WantedTopics, read_sources


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
    found = [_whole(client, plan, topic) for topic in sorted(plan.targets)]
    wholes = [whole for whole in found if not _is_told(known, whole, plan)]
    foreign = {whole.now.name: why for whole in wholes if (why := _foreign(client, whole))}
    if foreign:
        return foreign
    for record in _records(wholes, known, plan.found.id):
        write_control(client, markers, control_topic, record, Deadline.after(patience.JOB))
    return {}


def _is_told(known: Control, one: _Whole, plan: CheckpointPlan) -> bool:
    before = known.restored.get(one.topic_id)
    return before is not None and before.id == plan.found.id


def _whole(client: ReadClient, plan: CheckpointPlan, topic: str) -> _Whole:
    folder = plan.state_folders[topic]
    state = read_state(folder)
    if state is None:
        raise StorageError(
            f"{folder}: nothing is known of the restore there: name by --progress the folder that "
            "it was begun with."
        )
    copies = tuple(copy for copy in plan.copies if copy.topic == topic)
    maps = {copy.number: _map(state, copy) for copy in copies}
    return _Whole(_read(client, state), state, copies, maps)


def _read(client: ReadClient, state: RestoreState) -> TopicSource:
    """The topic as it is now.

    Raises:
        ClusterError: it is not the restored topic.
    """
    deadline = Deadline.after(patience.JOB)
    there = client.partitions((state.target,), deadline)
    if not there or str(there[0].topic_id) != state.topic_id:
        raise ClusterError(
            f"topic {state.target} was deleted since it was restored: restore it again, with "
            "--resume where others are whole"
        )
    (now,) = read_sources(client, WantedTopics((state.target,)), deadline)
    return now


def _foreign(client: ReadClient, one: _Whole) -> str:
    """What another client has written to the topic; empty if nothing.

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
    """The states of the partition's owners, as if they had reached the checkpoint here."""
    for group, state in sorted(read_states(copy.where).items()):
        position = offsets.new_of(copy.position)
        yield Created(group, topic_id, copy.number, copy.found.id, position, state).record


def _moved(copy: RestoredCopy, offsets: OffsetMap, known: Control) -> Iterator[MovedRecords]:
    """The records that a group reads again: their outputs keep their earlier identity."""
    start = _lowest(copy)
    identity = copy.identity().topic_id
    if start is None or start >= copy.position or identity is None:
        return
    # The notes of an earlier restore are on the checkpoint's own cluster, and in the copy.
    noted = known.restored.get(identity.hex)
    before = read_moved(copy.where) if noted is None else noted.moved.get(copy.number, ())
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


def _lowest(copy: RestoredCopy) -> int | None:
    """The lowest old offset at which an at-least-once group resumes."""
    cut: CutDocument | None = copy.found.cut
    assert cut is not None
    offsets = [
        group.offsets[copy.one.number]
        for group in cut.groups.values()
        if group.policy is GroupPolicy.AT_LEAST_ONCE and copy.one.number in group.offsets
    ]
    return min(offsets, default=None)


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
            if target in foreign:
                work.journal.note(foreign[target])
                _of(done, topic, target).error = foreign[target]
    return done


def _of(done: list[TopicRestored], topic: str, target: str) -> TopicRestored:
    """What is announced for *target*, which an earlier run may have restored."""
    found = next((restored for restored in done if restored.target == target), None)
    if found is None:
        found = TopicRestored(topic, target, settings_back=True)
        done.append(found)
    return found
