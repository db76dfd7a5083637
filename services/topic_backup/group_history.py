"""Stores consumer groups' offsets: the latest in Kafka Backup's file, with a history beside it.

Each change is a separate small file, so that an object store needs no append and an older state
can be restored. The manifest has the SHA-256 of each state, so that one that is missing, or that
was replaced, is noticed; a state has those of Kafka Backup's files, which cannot have one.

Reads and writes the committed offsets of consumer groups on one partition, as a JSON object.

Source: OffsetSink.java of itadventurer/kafka-backup, which writes a Java HashMap through Jackson.
Readers ignore the order of keys; it is reproduced so that files are identical byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError, MalformedInput
from breakglass.services.model import java_hash
from breakglass.services.topic_backup.folder import Folder, LocalFolder, read_whole
from breakglass.services.topic_backup.layout import consumer_offsets_name, listing
from breakglass.services.topic_backup.manifest import next_manifest, read_manifest, write_manifest
from breakglass.services.topic_backup.store.store import RunsFolder

PREFIX = "breakglass_groups_"
MOST_BYTES = 256 * 1024 * 1024
KEPT = 1000
"""How many states of one topic are kept; older states are removed."""
WITHOUT_SUMS = 1
"""The schema of older releases."""
SCHEMA = 2

GroupsByPartition = Mapping[int, Mapping[str, int]]
"""Committed offset by partition and group."""

OTHER_BYTES = "its bytes are not those that were written (SHA-256)"
NAMED = 3
"""How many times a sentence names."""
LOST = ""
"""In place of the SHA-256 of a state that was missing or changed when the backup went on."""
REWRITTEN = (
    "restore the file from another copy, or remove it: the next `backup run` writes it again"
)
ANOTHER = "the next `backup run` writes new ones; `--groups-at` restores those of another time"
ABSENT = f"restore the file from another copy, or remove it: {ANOTHER}"

_NAME = re.compile(rf"{PREFIX}([0-9]{{13,19}})\.json", re.ASCII)


@dataclass(frozen=True, slots=True)
class GroupState:
    """The offsets of groups at one time."""

    partitions: dict[int, dict[str, int]]
    not_read: tuple[str, ...] = ()
    """Groups whose coordinator did not answer: their offsets are those of an earlier state."""
    unread: tuple[str, ...] = ()
    """Which coordinators did not answer, with the reason: any group of theirs may be missing."""
    hidden: tuple[str, ...] = ()
    """Rights that the user of the run lacked to read groups, which are missing."""
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


def states(folder: Folder) -> dict[int, str | None]:
    """The SHA-256 of each state that *folder* is to have, by its time in ms, oldest first.

    `LOST` of a lost one; None where no manifest has it, as in a backup of an older release. What
    the manifest does not name is no part of the backup: a killed run left it.
    """
    manifest = read_manifest(folder)
    if manifest is None or manifest.groups is None:
        return dict.fromkeys(times(folder.names()))
    return dict(sorted(manifest.groups.items()))


def read_state(folder: Folder, at_ms: int, written: str | None = None) -> GroupState:
    """The state that was saved at *at_ms*, as it was *written* by its SHA-256.

    Raises MalformedInput: the file is not that state, is missing or was changed.
    """
    name = _name(at_ms)
    where = f"{folder.where(name)}, offsets of groups of {moment(at_ms)}"
    if written == LOST:
        raise MalformedInput(f"{where}: lost before the last commit; {ANOTHER}")
    if folder.size(name) is None:
        raise MalformedInput(f"{where}: the file is missing; {ABSENT}")
    content = read_whole(folder, name, MOST_BYTES)
    try:
        found = json.loads(content)
        state = GroupState(
            {
                int(number): {str(group): int(offset) for group, offset in groups.items()}
                for number, groups in found["partitions"].items()
            },
            tuple(map(str, found.get("not_read", ()))),
            tuple(map(str, found.get("unread", ()))),
            tuple(map(str, found.get("hidden", ()))),
            {int(number): tuple(sums) for number, sums in found.get("sums", {}).items()},
        )
        old = found["schema"] == WITHOUT_SUMS
        whole = old or (content == _with_sum(found) and found["at_ms"] == at_ms)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MalformedInput(f"{where}: not readable ({error}); {ABSENT}") from None
    if not whole or written not in (None, _sum(content)):
        raise MalformedInput(f"{where}: {OTHER_BYTES}; {ABSENT}")
    return state


def moment(at_ms: int) -> str:
    """A time in words."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def newest_state(folder: Folder) -> GroupState | None:
    """The newest state of *folder*; None without any.

    Raises: as `read_state`.
    """
    known = states(folder)
    return read_state(folder, *list(known.items())[-1]) if known else None


def lacking(state: GroupState | None) -> Iterator[str]:
    """What *state* has not of groups, each in a sentence."""
    if state is None:
        return
    for reason in (*state.unread, *state.hidden):
        yield f"not all groups' offsets are in the backup: {reason}, when they were read"
    if state.not_read:
        yield (
            f"offsets of {', '.join(state.not_read)} are of an earlier run: their coordinator did "
            "not answer the last one"
        )


def newest_offsets(folder: Folder, numbers: Collection[int]) -> dict[int, dict[str, int]]:
    """The newest offsets of groups on the partitions *numbers*, of groups that the last run saw.

    Kafka Backup's file, which Kafka Backup never takes a group out of, has the others: `gone`.

    Raises MalformedInput: a file cannot be read, or was changed.
    """
    state = newest_state(folder) or GroupState({})
    found = {}
    for number in numbers:
        if not state.proves(folder, number):
            raise MalformedInput(
                f"{folder.where(consumer_offsets_name(number))}: {OTHER_BYTES}; {REWRITTEN}"
            )
        # A run that was killed leaves the file behind the state.
        known = number in state.sums
        found[number] = (
            dict(state.partitions.get(number, {})) if known else read_offsets(folder, number)
        )
    return found


def gone(folder: Folder, numbers: Collection[int]) -> list[str]:
    """The groups with offsets on *numbers* in Kafka Backup's files that the last run did not see.

    They were deleted, or have no offset there any more (B31). Raises as `read_state`.
    """
    state = newest_state(folder) or GroupState({})
    names = {
        name
        for number in numbers
        if number in state.sums
        for name in read_offsets(folder, number)
        if name not in state.partitions.get(number, {})
    }
    return sorted(names)


def damages(folder: Folder) -> Iterator[tuple[str, str]]:
    """Each file with offsets of groups that is missing or was changed, and what is wrong.

    Of states that a later run noted as lost, the newest alone.
    """
    known = states(folder)
    newest: GroupState | None = None
    for at_ms, written in known.items():
        newest = None
        try:
            if written != LOST or at_ms == max(known):
                newest = read_state(folder, at_ms, written)
        except BreakglassError as error:
            yield _name(at_ms), str(error)
    there = {number for number, files in listing(folder.names()).items() if files.consumer_offsets}
    for number in sorted(there | (newest.sums.keys() if newest else set())):
        name = consumer_offsets_name(number)
        if newest and not newest.proves(folder, number):
            yield name, f"{OTHER_BYTES}; {REWRITTEN}"
            continue
        try:
            held = read_offsets(folder, number)
        except BreakglassError as error:
            yield name, str(error)
            continue
        older = newest.partitions.get(number, {}) if newest and number not in newest.sums else {}
        if not older.items() <= held.items():
            yield name, f"{OTHER_BYTES}; {REWRITTEN}"


def outline(folder: Folder) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """How many states there are, what is lacking now, and which states are lost, as sentences.

    Of the files, only the newest state is read.
    """
    known, names = states(folder), set(folder.names())
    there = [at_ms for at_ms in known if _name(at_ms) in names and known[at_ms] != LOST]
    gone = [moment(at_ms) for at_ms, written in known.items() if written == LOST]
    named = ", ".join([*gone[:NAMED], *(["..."] if len(gone) > NAMED else [])])
    lost = f"offsets of groups of {named} are lost: `--groups-at` restores those of another time"
    missing = [
        f"{folder.where(_name(at_ms))}, offsets of groups of {moment(at_ms)}: the file is missing"
        for at_ms, written in list(known.items())[:-1]
        if written != LOST and at_ms not in there
    ]
    try:
        now = tuple(lacking(newest_state(folder)))
    except BreakglassError as error:
        now = (str(error),)
    return len(there), (*missing, *now), (lost,) if gone else ()


def update(
    folder: Folder,
    offsets: GroupsByPartition,
    at_ms: int | None = None,
    read: Container[str] | None = None,
    unread: Sequence[str] = (),
    hidden: Sequence[str] = (),
) -> tuple[str, ...]:
    """Write *offsets*, by partition, if they differ from the last state or from the files.

    *read* has the groups that a coordinator described; None: all groups. What was not read keeps
    the offsets of the last state, and its groups are returned; *unread* and *hidden* say why. A
    partition on which no group has committed gets a file without groups: Kafka Backup's source
    task fails at the first record of a partition that has no file (OffsetSource.java).
    """
    names = set(folder.names())
    absent = {number for number in offsets if consumer_offsets_name(number) not in names}
    for number in absent:
        update_offsets(folder, number, {})
    known = states(folder)
    if None in known.values():
        # Names those of an older release, so that what a killed run leaves is none of them.
        _commit(folder, known)
        known = states(folder)
    found = {at: written for at, written in known.items() if _name(at) not in names}
    known |= dict.fromkeys(found, LOST)
    last = _readable(folder, list(known.items())[-1:])
    if known and last is None:
        known[max(known)] = LOST
    base = last or _readable(folder, known.items())
    kept = _kept(base, offsets, read)
    wanted = {
        number: groups
        for number in sorted(offsets.keys() | kept.keys())
        if (groups := {**kept.get(number, {}), **offsets.get(number, {})})
    }
    not_read = tuple(sorted({name for groups in kept.values() for name in groups}))
    state = GroupState(wanted, not_read, tuple(unread), tuple(hidden))
    if (wanted or known or unread) and not (
        last and not absent.intersection(last.sums) and _stands(folder, state, last)
    ):
        _write(folder, state, last or GroupState({}), known, at_ms or now_ms(), offsets)
    elif any(written != LOST for written in found.values()):
        _commit(folder, known)
    return not_read


def _kept(
    last: GroupState | None, offsets: GroupsByPartition, read: Container[str] | None
) -> dict[int, dict[str, int]]:
    kept = {}
    for number, groups in last.partitions.items() if last else ():
        if number not in offsets:
            kept[number] = groups
        elif read is not None:
            kept[number] = {name: at for name, at in groups.items() if name not in read}
    return kept


def _stands(folder: Folder, state: GroupState, last: GroupState) -> bool:
    """Whether *last* is *state*, and no file has to be written again."""
    same = replace(last, sums={}) == replace(state, sums={})
    return (
        same
        and bool(last.sums or not state.partitions)
        and all(_as_left(folder, last, one) for one in last.sums)
    )


def _as_left(folder: Folder, last: GroupState, number: int) -> bool:
    """Whether the file of partition *number* is as *last* leaves it.

    Only local files are cheap enough to be read at each run.
    """
    return not isinstance(folder, LocalFolder) or _sum_of(folder, number) == last.sums[number][0]


def copy(folder: Folder, target: Folder, numbers: Sequence[int]) -> None:
    """Copy the groups' offsets on the partitions *numbers*: the latest, and all earlier states.

    Of what `damages` names, a state is noted as lost, and a file is made of the states.
    """
    damaged = {name for name, _ in damages(folder)}
    known = {at: LOST if _name(at) in damaged else sum_ for at, sum_ in states(folder).items()}
    there = set(folder.names())
    copied = [_name(at) for at, written in known.items() if written != LOST]
    for name in (*copied, *map(consumer_offsets_name, numbers)):
        if name in there and name not in damaged:
            target.replace(name, [read_whole(folder, name, MOST_BYTES)])
    _commit(target, known)
    lost = [number for number in numbers if consumer_offsets_name(number) in damaged]
    last = _readable(target, known.items())
    if lost and last:
        again = GroupState(last.partitions, last.not_read, last.unread, last.hidden)
        if LOST in list(known.values())[-1:]:
            earlier = {group for groups in last.partitions.values() for group in groups}
            why = f"the offsets of groups of {moment(max(known))} were lost"
            again = replace(again, not_read=tuple(sorted(earlier)), unread=(*last.unread, why))
        _write(target, again, last, known, 0, lost)
    for number in numbers:
        if target.size(consumer_offsets_name(number)) is None:
            update_offsets(target, number, {})


def _commit(folder: Folder, known: Mapping[int, str | None]) -> None:
    """Name the states *known*, the last `KEPT` of them, in a manifest, if there is one."""
    manifest = read_manifest(folder)
    if manifest is None:
        return
    groups = {}
    for at_ms, written in list(known.items())[-KEPT:]:
        if written is None:
            # Of an older release: what cannot be read is lost.
            readable = _readable(folder, [(at_ms, None)]) is not None
            written = _sum(read_whole(folder, _name(at_ms), MOST_BYTES)) if readable else LOST
        groups[at_ms] = written
    if groups != manifest.groups:
        write_manifest(
            folder, replace(next_manifest(manifest, manifest.identity, {}), groups=groups)
        )
        if isinstance(folder, RunsFolder):
            folder.remove_stale()


def _write(
    folder: Folder,
    state: GroupState,
    last: GroupState,
    known: Mapping[int, str | None],
    at_ms: int,
    numbers: Collection[int],
) -> None:
    """Write *state*, which follows *last*, and the files of the partitions *numbers*."""
    at_ms = max(at_ms, *(one + 1 for one in (*known, *times(folder.names()))), 0)
    new: dict[int, bytes] = {}
    sums = dict(last.sums)
    for number in sorted({*numbers, *state.partitions}):
        groups = state.partitions.get(number, {})
        same = number in last.sums and groups == last.partitions.get(number, {})
        if same and _as_left(folder, last, number):
            continue
        proved = last.proves(folder, number)
        if proved:
            new[number] = updated_offsets(read_offsets(folder, number), groups)
        else:
            # The groups of a file that was changed, as far as states have them.
            all_known: dict[str, int] = {}
            for one in known.items():
                readable = _readable(folder, [one]) or GroupState({})
                all_known |= readable.partitions.get(number, {})
            new[number] = updated_offsets({}, all_known | groups)
        found = (_sum(new[number]), _sum_of(folder, number) if proved else None)
        sums[number] = tuple(dict.fromkeys(one for one in found if one))
    document = {"schema": SCHEMA, "at_ms": at_ms, **asdict(replace(state, sums=sums))}
    content = _with_sum(json.loads(json.dumps(document)))
    # The state comes first, as it knows the files as they are and as they will be.
    folder.replace(_name(at_ms), [content])
    folder.sync()
    _commit(folder, {**known, at_ms: _sum(content)})
    for number, file in new.items():
        folder.replace(consumer_offsets_name(number), [file])
    kept = states(folder)
    for old in times(folder.names()):
        if old not in list(kept)[-KEPT:]:
            folder.remove(_name(old))


def _readable(folder: Folder, known: Iterable[tuple[int, str | None]]) -> GroupState | None:
    """The last state of *known* that can be read; None without any."""
    for at_ms, written in reversed(list(known)):
        try:
            return read_state(folder, at_ms, written)
        except MalformedInput:
            continue
    return None


def _sum_of(folder: Folder, number: int) -> str | None:
    name = consumer_offsets_name(number)
    if folder.size(name) is None:
        return None
    return _sum(read_whole(folder, name, MAX_FILE_BYTES))


def _sum(content: bytes) -> str:
    return sha256(content).hexdigest()


def _with_sum(document: Mapping[str, Any]) -> bytes:
    """*document* as it is written: with the SHA-256 of all that comes before it."""
    rest = {name: value for name, value in document.items() if name != "sha256"}
    told = json.dumps(rest)
    return json.dumps({**rest, "sha256": _sum(told.encode())}).encode() + b"\n"


def _name(at_ms: int) -> str:
    return f"{PREFIX}{at_ms:013d}.json"


MAX_FILE_BYTES = 64 * 1024 * 1024
"""Enough for a million groups."""
SMALLEST_TABLE = 16
"""Buckets of a new HashMap; the number doubles when the map is three quarters full."""


def encode_offsets(offsets: Mapping[str, int]) -> bytes:
    """*offsets* as Jackson writes them, in their order."""
    text = json.dumps(dict(offsets), ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"\\(u[0-9a-f]{4}|.)", _jackson_escape, text).encode()


def _jackson_escape(match: re.Match[str]) -> str:
    escaped = match[1]
    return f"\\u{escaped[1:].upper()}" if len(escaped) > 1 else match[0]


def decode_offsets(content: bytes, where: str) -> dict[str, int]:
    """Parse *content*; an empty file, which exists before the first flush, has no offsets.

    Raises MalformedInput: *content* is not an object of whole numbers; gives line and column.
    """
    if not content:
        return {}
    try:
        offsets = json.loads(content.decode())
    except json.JSONDecodeError as error:
        spot = f"line {error.lineno}, column {error.colno}"
        raise MalformedInput(f"{where}, {spot}: {error.msg}; {_REPLACE}") from None
    except (ValueError, RecursionError) as error:
        raise MalformedInput(f"{where}: no JSON ({error}); {_REPLACE}") from None
    if not isinstance(offsets, dict):
        raise MalformedInput(f"{where}: not an object of groups; {_REPLACE}")
    for group, offset in offsets.items():
        if type(offset) is not int:
            raise MalformedInput(f"{where}: the offset of group {group!r} is no number; {_REPLACE}")
    return offsets


_REPLACE = "restore the file from another copy, or empty it to do without its groups."


def read_offsets(folder: Folder, partition: int) -> dict[str, int]:
    """The groups' offsets on *partition*; empty if there is no file.

    Raises:
        MalformedInput: as `decode_offsets`.
        StorageError: the file cannot be read_offsets, or is too large.
    """
    name = consumer_offsets_name(partition)
    if folder.size(name) is None:
        return {}
    return decode_offsets(read_whole(folder, name, MAX_FILE_BYTES), folder.where(name))


def update_offsets(folder: Folder, partition: int, offsets: Mapping[str, int]) -> None:
    """Replace the offsets of the groups in *offsets*; other groups stay unchanged."""
    content = updated_offsets(read_offsets(folder, partition), offsets)
    folder.replace(consumer_offsets_name(partition), [content])


def updated_offsets(held: Mapping[str, int], offsets: Mapping[str, int]) -> bytes:
    """The file that had the groups *held*, with the *offsets* of groups."""
    new = {group: offsets[group] for group in hash_order(offsets)}
    return encode_offsets({**held, **(offsets if held else new)})


def hash_order(groups: Iterable[str]) -> list[str]:
    """Sort *groups* in the iteration order of a Java HashMap."""
    names = list(groups)
    buckets = SMALLEST_TABLE
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _spread(java_hash(name)) & (buckets - 1))


def _spread(value: int) -> int:
    """*value* with the upper half folded into the lower half, as HashMap does."""
    return value ^ value >> 16
