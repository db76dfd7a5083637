"""Decides which saved states of partition owners a checkpoint contains.

An owner records its state in the control topic under the same key for every checkpoint, so
compaction removes all but the last state after a day. A checkpoint therefore lists the partitions
whose states it has, and its copies must contain these states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from breakglass.services.checkpoint.kafka.control import Control, Created
from breakglass.services.checkpoint.kafka.topics import of
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupCut,
    Level,
    TakeDocument,
)
from breakglass.services.errors import EvidenceChanged, Refused
from breakglass.services.model import PartitionState, TopicPartition

States = Mapping[int, Mapping[str, bytes]]
"""By the partition's number and the group."""


@dataclass(frozen=True, slots=True)
class CheckpointPartition:
    """A partition of a checkpoint, as the control topic names it."""

    partition: TopicPartition
    topic_id: str

    def key(self, group: str) -> tuple[str, str, int]:
        """The key under which the owner in *group* records its state."""
        return group, self.topic_id, self.partition.partition


def places(take: TakeDocument, states: Iterable[PartitionState]) -> dict[int, CheckpointPartition]:
    """The partitions of a checkpoint by number, as the cluster has them."""
    ids = {state.partition: state.topic_id.hex for state in states}
    return {
        partition.number: CheckpointPartition(of(partition), ids[of(partition)])
        for partition in take.partitions
    }


def with_states(
    take: TakeDocument,
    cut: CutDocument,
    places: Mapping[int, CheckpointPartition],
    starts: Mapping[int, int],
    control: Control,
) -> CutDocument:
    """*cut*, with the partitions that have a saved state, and the partitions that are replayed.

    A state that was saved at the checkpoint is valid from the cut. Without a state, or if the group
    resumes before the cut, the log is replayed: *starts* must show that it is complete.

    Raises:
        Refused: retention has removed records that the replay needs.
    """
    groups = {
        name: _promised(take, cut, name, group, places, starts, control)
        for name, group in cut.groups.items()
    }
    return replace(cut, groups=groups)


def _promised(
    take: TakeDocument,
    cut: CutDocument,
    name: str,
    group: GroupCut,
    places: Mapping[int, CheckpointPartition],
    starts: Mapping[int, int],
    control: Control,
) -> GroupCut:
    states, replayed = [], []
    for number, place in sorted(places.items()):
        last = control.created.get(place.key(name))
        if last is None or last.state is None:
            continue
        end = cut.positions[number]
        found = _saved_at(take, end, place.key(name), control)
        offset = group.offsets.get(number, end)
        if found is not None:
            states.append(number)
        if found is None or found.position > offset:
            if starts[number]:
                raise Refused(_not_replayed(take.level, name, place, offset, found))
            replayed.append(number)
    return replace(group, states=tuple(states), replayed=tuple(replayed))


def _saved_at(
    take: TakeDocument, end: int, key: tuple[str, str, int], control: Control
) -> Created | None:
    """The state that an owner saved at the checkpoint whose cut is at *end*.

    An owner that skipped the checkpoint, because the next one begins at the same record, has saved
    the same state for the next one. A state recorded after the cut is later.
    """
    if take.level is not Level.COORDINATED:
        return None
    noted = control.noted.get(key, ())
    found = [created for created in noted if created.id >= take.id and created.position <= end]
    return found[-1] if found and found[-1].state is not None else None


def _not_replayed(
    level: Level, group: str, place: CheckpointPartition, offset: int, found: Created | None
) -> str:
    gone = "retention has removed what it would be replayed from"
    if level is not Level.COORDINATED:
        return (
            f"unverifiable: group {group} goes on at {offset} in {place.partition} with a state "
            f"that it saves at coordinated checkpoints alone, and {gone}: take a coordinated one "
            f"with --group {group}=exactly-once"
        )
    if found is None:
        return (
            f"unverifiable: another checkpoint was taken since, and what group {group} had "
            f"saved for this one in {place.partition} is gone; {gone}: take the next one"
        )
    return (
        f"unverifiable: group {group} goes on at {offset} in {place.partition}, before the state "
        f"that it saved at {found.position}, and {gone}: take one with --group {group}="
        "exactly-once"
    )


def promised_states(
    take: TakeDocument,
    cut: CutDocument,
    places: Mapping[int, CheckpointPartition],
    control: Control,
) -> States:
    """The states that *cut* lists.

    Raises:
        EvidenceChanged: a state is gone.
    """
    return {
        number: dict(_states(take, cut, number, place, control)) for number, place in places.items()
    }


def _states(
    take: TakeDocument, cut: CutDocument, number: int, place: CheckpointPartition, control: Control
) -> Iterator[tuple[str, bytes]]:
    for name, group in cut.groups.items():
        if number in group.states:
            found = _saved_at(take, cut.positions[number], place.key(name), control)
            if found is None or found.state is None:
                raise EvidenceChanged(
                    f"what group {name} had saved at checkpoint {take.id} in {place.partition} is "
                    "gone from the control topic: take a checkpoint with a new id"
                )
            yield name, found.state
