"""Stores consumer groups' offsets: the latest in Kafka Backup's file, with a history beside it.

Each change is a separate small file, so that an object store needs no append and an older state
can be restored. A state has the SHA-256 of its own content and those of Kafka Backup's files,
which cannot have one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError, MalformedInput
from breakglass.services.topic_backup import consumer_offsets
from breakglass.services.topic_backup.folder import Folder, LocalFolder, read_whole
from breakglass.services.topic_backup.layout import consumer_offsets_name, listing

PREFIX = "breakglass_groups_"
MOST_BYTES = 256 * 1024 * 1024
KEPT = 1000
"""How many states of one topic are kept; older states are removed."""
WITHOUT_SUMS = 1
"""The schema of older releases."""
SCHEMA = 2

GroupsByPartition = Mapping[int, Mapping[str, int]]
"""Committed offset by partition and group."""

OTHER_BYTES = (
    "its bytes are not those that were written (SHA-256): restore the file from another copy, or "
    "let the next `backup run` write it again"
)

_NAME = re.compile(rf"{PREFIX}([0-9]{{13,19}})\.json", re.ASCII)


@dataclass(frozen=True, slots=True)
class GroupState:
    """The offsets of groups at one time."""

    partitions: dict[int, dict[str, int]]
    not_read: tuple[str, ...] = ()
    """Groups whose coordinator did not answer: their offsets are those of an earlier state."""
    sums: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The SHA-256 of each partition's file of Kafka Backup: as this state leaves it, then as it
    was before, which a run that was killed leaves.
    """

    def proves(self, folder: Folder, number: int) -> bool:
        """Whether the file of partition *number* has bytes that were written; True if unknown."""
        return number not in self.sums or _sum_of(folder, number) in self.sums[number]


def times(names: Collection[str]) -> list[int]:
    """The times of the states among *names*, in ms, oldest first."""
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def read_state(folder: Folder, at_ms: int) -> GroupState:
    """The state that was saved at *at_ms*.

    Raises:
        MalformedInput: the file is not a state, or was changed.
    """
    name = _name(at_ms)
    content = read_whole(folder, name, MOST_BYTES)
    try:
        found = json.loads(content)
        state = GroupState(
            {
                int(number): {str(group): int(offset) for group, offset in groups.items()}
                for number, groups in found["partitions"].items()
            },
            tuple(map(str, found.get("not_read", ()))),
            {int(number): tuple(sums) for number, sums in found.get("sums", {}).items()},
        )
        schema, whole = found["schema"], content == _with_sum(found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MalformedInput(
            f"{folder.where(name)}: no offsets of groups ({error}); remove it to do without."
        ) from None
    if schema != WITHOUT_SUMS and not whole:
        raise MalformedInput(f"{folder.where(name)}: {OTHER_BYTES}; remove it to do without.")
    return state


def newest_state(folder: Folder, names: Collection[str]) -> GroupState | None:
    """The newest state among *names*; None without any.

    Raises: as `read_state`.
    """
    taken = times(names)
    return read_state(folder, taken[-1]) if taken else None


def newest_offsets(folder: Folder, numbers: Collection[int]) -> dict[int, dict[str, int]]:
    """The newest offsets of groups on the partitions *numbers*.

    Raises:
        MalformedInput: a file cannot be read, or was changed.
    """
    state = newest_state(folder, folder.names()) or GroupState({})
    found = {}
    for number in numbers:
        if not state.proves(folder, number):
            raise MalformedInput(f"{folder.where(consumer_offsets_name(number))}: {OTHER_BYTES}")
        # A run that was killed leaves the file behind the state.
        newer = state.partitions.get(number, {}) if number in state.sums else {}
        found[number] = {**consumer_offsets.read(folder, number), **newer}
    return found


def damages(folder: Folder) -> Iterator[tuple[str, str]]:
    """Each file with offsets of groups that was changed or cannot be read, and what is wrong."""
    names = folder.names()
    newest: GroupState | None = None
    for at_ms in times(names):
        try:
            newest = read_state(folder, at_ms)
        except BreakglassError as error:
            newest = None
            yield _name(at_ms), str(error)
    there = {number for number, files in listing(names).items() if files.consumer_offsets}
    for number in sorted(there | (newest.sums.keys() if newest else set())):
        try:
            held = consumer_offsets.read(folder, number)
        except BreakglassError as error:
            yield consumer_offsets_name(number), str(error)
            continue
        if newest is None:
            continue
        older = {} if number in newest.sums else newest.partitions.get(number, {})
        if not newest.proves(folder, number) or not older.items() <= held.items():
            yield consumer_offsets_name(number), OTHER_BYTES


def update(
    folder: Folder,
    offsets: GroupsByPartition,
    at_ms: int | None = None,
    read: Container[str] | None = None,
) -> tuple[str, ...]:
    """Write *offsets*, by partition, if they differ from the last state or from the files.

    *read* has the groups that a coordinator described; None: all groups. What was not read keeps
    the offsets of the last state, and its groups are returned. A partition on which no group has
    committed gets a file without groups: Kafka Backup's source task fails at the first record of a
    partition that has no file (OffsetSource.java).
    """
    names = folder.names()
    taken = times(names)
    for number in offsets:
        if consumer_offsets_name(number) not in names:
            consumer_offsets.update(folder, number, {})
    last = _readable(folder, taken[-1:])
    known = last or next(filter(None, (_readable(folder, [one]) for one in taken[::-1])), None)
    kept = _kept(known, offsets, read)
    wanted = {
        number: groups
        for number in sorted(offsets.keys() | kept.keys())
        if (groups := {**kept.get(number, {}), **offsets.get(number, {})})
    }
    state = GroupState(wanted, tuple(sorted({name for groups in kept.values() for name in groups})))
    if (wanted or taken) and not (last and _stands(folder, state, last)):
        _write(folder, state, last or GroupState({}), taken, at_ms or now_ms(), offsets)
    return state.not_read


def _kept(
    last: GroupState | None, offsets: GroupsByPartition, read: Container[str] | None
) -> dict[int, dict[str, int]]:
    """What the *last* state has of partitions and groups that were not read."""
    kept = {}
    for number, groups in last.partitions.items() if last else ():
        if number not in offsets:
            kept[number] = groups
        elif read is not None:
            kept[number] = {name: at for name, at in groups.items() if name not in read}
    return kept


def _stands(folder: Folder, state: GroupState, last: GroupState) -> bool:
    """Whether *last* is *state*, and no file has to be written again."""
    same = (last.partitions, last.not_read) == (state.partitions, state.not_read)
    return same and bool(last.sums) and all(_as_left(folder, last, one) for one in last.sums)


def _as_left(folder: Folder, last: GroupState, number: int) -> bool:
    """Whether the file of partition *number* is as *last* leaves it.

    Only local files are cheap enough to be read at each run.
    """
    return not isinstance(folder, LocalFolder) or _sum_of(folder, number) == last.sums[number][0]


def copy(folder: Folder, target: Folder, numbers: Sequence[int]) -> None:
    """Copy the groups' offsets on the partitions *numbers*: the latest, and all earlier states.

    Of what `damages` names, a state is left out, and a file is made of the states.
    """
    names = folder.names()
    damaged = {name for name, _ in damages(folder)}
    states = [_name(at_ms) for at_ms in times(names)]
    for name in (*states, *map(consumer_offsets_name, numbers)):
        if name in names and name not in damaged:
            target.replace(name, [read_whole(folder, name, MOST_BYTES)])
    lost = [number for number in numbers if consumer_offsets_name(number) in damaged]
    last = newest_state(target, target.names())
    if lost and last:
        again = GroupState(last.partitions, last.not_read)
        _write(target, again, last, times(target.names()), 0, lost)
    for number in numbers:
        if target.size(consumer_offsets_name(number)) is None:
            consumer_offsets.update(target, number, {})


def _write(
    folder: Folder,
    state: GroupState,
    last: GroupState,
    taken: Sequence[int],
    at_ms: int,
    numbers: Collection[int],
) -> None:
    """Write *state*, which follows *last*, and the files of the partitions *numbers*."""
    at_ms = max(at_ms, taken[-1] + 1 if taken else 0)
    new: dict[int, bytes] = {}
    sums = dict(last.sums)
    for number in sorted({*numbers, *state.partitions}):
        groups = state.partitions.get(number, {})
        same = number in last.sums and groups == last.partitions.get(number, {})
        if same and _as_left(folder, last, number):
            continue
        proved = last.proves(folder, number)
        if proved:
            new[number] = consumer_offsets.encoded(consumer_offsets.read(folder, number), groups)
        else:
            all_known = {**_from_states(folder, taken, number), **groups}
            new[number] = consumer_offsets.encoded({}, all_known)
        found = (_sum(new[number]), _sum_of(folder, number) if proved else None)
        sums[number] = tuple(dict.fromkeys(one for one in found if one))
    # The state comes first: it knows the files as they are and as they will be.
    document = {"schema": SCHEMA, "at_ms": at_ms, **asdict(replace(state, sums=sums))}
    folder.replace(_name(at_ms), [_with_sum(json.loads(json.dumps(document)))])
    folder.sync()
    for number, content in new.items():
        folder.replace(consumer_offsets_name(number), [content])
    for old in taken[: max(0, len(taken) + 1 - KEPT)]:
        folder.remove(_name(old))


def _from_states(folder: Folder, taken: Sequence[int], number: int) -> dict[str, int]:
    """The groups of a file that was changed, as far as states have them."""
    found: dict[str, int] = {}
    for at_ms in taken:
        state = _readable(folder, [at_ms]) or GroupState({})
        found |= state.partitions.get(number, {})
    return found


def _readable(folder: Folder, taken: Sequence[int]) -> GroupState | None:
    """The last of the states *taken*; None without any, or if it was changed."""
    try:
        return read_state(folder, taken[-1]) if taken else None
    except MalformedInput:
        return None


def _sum_of(folder: Folder, number: int) -> str | None:
    name = consumer_offsets_name(number)
    if folder.size(name) is None:
        return None
    return _sum(read_whole(folder, name, consumer_offsets.MAX_FILE_BYTES))


def _sum(content: bytes) -> str:
    return sha256(content).hexdigest()


def _with_sum(document: Mapping[str, Any]) -> bytes:
    """*document* as it is written: with the SHA-256 of all that comes before it."""
    rest = {name: value for name, value in document.items() if name != "sha256"}
    told = json.dumps(rest)
    return json.dumps({**rest, "sha256": _sum(told.encode())}).encode() + b"\n"


def _name(at_ms: int) -> str:
    return f"{PREFIX}{at_ms:013d}.json"
