"""`breakglass checkpoint list` and `status`: what there is, and how far it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn

import typer

from breakglass.console.checkpoint_documents import brief, document
from breakglass.console.checkpoint_options import Id, Store, all_in, found_in, store_at
from breakglass.console.options import AsJson
from breakglass.console.output import Column, print_json, print_lines, print_table, say
from breakglass.services.checkpoint.wording import PROMISES, level_of, promise
from breakglass.services.words.figures import count, total_text
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition
    from breakglass.services.checkpoint.watch import SoFar


def list_all(store: Store, as_json: AsJson = False) -> None:
    """List the checkpoints of a store, the newest first.

    Ends with 1 when documents of a checkpoint are damaged: it is listed with the reason.
    """
    found = all_in(store_at(store))
    if as_json:
        print_json({"schema": 1, "checkpoints": [brief(checkpoint) for checkpoint in found]})
    elif not found:
        say("There is no checkpoint.")
    else:
        print_table(COLUMNS, [_line(checkpoint) for checkpoint in found])
        print_lines(_below(found))
    raise typer.Exit(int(any(checkpoint.unread is not None for checkpoint in found)))


def status(id: Id, store: Store, as_json: AsJson = False) -> None:
    """Show one checkpoint: its level, the state of each partition, and why it was lowered.

    For a partition that is being copied, the command prints how much is copied, and about how much
    there is to copy in all.
    """
    from breakglass.services.checkpoint.watch import so_far

    opened = store_at(store)
    found = found_in(opened, id)
    moving = so_far(opened, found)
    if as_json:
        print_json({"schema": 1, **document(found, moving)})
    else:
        print_checkpoint(found, moving)


def end_with(found: StoredCheckpoint, *, as_json: bool) -> NoReturn:
    """Print a checkpoint that is done, and end with 0 where it is completed."""
    from breakglass.services.checkpoint.protocol.values import Status

    if as_json:
        print_json({"schema": 1, **document(found)})
    else:
        print_checkpoint(found)
    raise typer.Exit(0 if found.status is Status.COMPLETED else 1)


def print_checkpoint(found: StoredCheckpoint, moving: Mapping[int, SoFar] | None = None) -> None:
    """What holds for all of it, a line for each partition, and what else there is to say."""
    print_lines(_head(found))
    print_table(PARTITION_COLUMNS, list(_partitions(found, moving or {})))
    print_lines(_foot(found))


def _head(found: StoredCheckpoint) -> Iterator[str]:
    from breakglass.services.checkpoint.wording import reasons

    done = f"{found.completed:,} of {len(found.partitions):,} partitions copied"
    yield f"checkpoint {found.id}  {level_of(found)}  {found.status}  {done}  {_size(found)} bytes"
    yield promise(found)
    for reason in reasons(found):
        yield f"failed: {reason}"


def _foot(found: StoredCheckpoint) -> Iterator[str]:
    from breakglass.services.checkpoint.wording import name_of

    for name, group in sorted(found.cut.groups.items()) if found.cut else ():
        yield f"group {name}  {group.policy}"
    last = found.verified
    if last is None:
        if _whole(found):
            yield f"never verified: `breakglass checkpoint verify {found.id}` reads every byte"
        return
    yield f"verified {time_text(last.at_ms)}: {'damaged' if last.damage else 'whole'}"
    for part in found.partitions:
        if part.number in last.damage:
            yield f"{name_of(part)}  {last.damage[part.number]}"


def _below(found: Iterable[StoredCheckpoint]) -> Iterator[str]:
    """What each level among them promises, and why those have failed that have."""
    from breakglass.services.checkpoint.wording import reasons

    levels = {checkpoint.take.level for checkpoint in found if checkpoint.take is not None}
    for level, words in PROMISES.items():
        if level in levels:
            yield words
    for checkpoint in found:
        for reason in reasons(checkpoint):
            yield f"{checkpoint.id} {checkpoint.state}: {reason}"


def _whole(found: StoredCheckpoint) -> bool:
    from breakglass.services.checkpoint.protocol.values import Status

    return found.status is Status.COMPLETED


def _verified(found: StoredCheckpoint) -> str:
    last = found.verified
    if last is None:
        return "never" if _whole(found) else ""
    return "damaged" if last.damage else time_text(last.at_ms)


def _size(found: StoredCheckpoint) -> str:
    from breakglass.services.checkpoint.watch import sizes

    return total_text(sizes(found)) if found.partitions else "?"


def _line(found: StoredCheckpoint) -> tuple[object, ...]:
    done = f"{found.completed:,}/{len(found.partitions):,}"
    asked = time_text(found.created_at_ms)
    return found.id, level_of(found), found.state, done, _size(found), asked, _verified(found)


def _partitions(
    found: StoredCheckpoint, moving: Mapping[int, SoFar]
) -> Iterator[tuple[object, ...]]:
    from breakglass.services.checkpoint.wording import name_of

    for part in found.partitions:
        cut, far = found.cut, moving.get(part.number)
        position = None if cut is None else cut.positions.get(part.number)
        held_back = None if cut is None else len(cut.in_transit.get(part.number, ()))
        records, size = _figures(part) if far is None else _so_far(far)
        cells = (_figure(position), records, _figure(held_back), size)
        yield part.number, name_of(part), part.status, *cells


def _figures(part: StoredPartition) -> tuple[str, str]:
    manifest = None if part.counting is None else part.counting.manifest
    if part.counting is None or manifest is None:
        return "?", "?"
    return count(manifest.records), _figure(part.counting.size)


def _so_far(far: SoFar) -> tuple[str, str]:
    """Those of one under way, of how many about."""
    expected = far.bytes_expected
    offsets = "?" if far.offsets is None else f"<= {far.offsets:,}"
    about = "?" if expected is None else f"~{expected:,}"
    return f"{far.records:,} of {offsets}", f"{far.bytes:,} of {about}"


def _figure(value: int | None) -> str:
    return "?" if value is None else count(value)


COLUMNS = (
    Column("Id", right=True),
    Column("Level"),
    Column("State"),
    Column("Copied", right=True),
    Column("Bytes", right=True),
    Column("Asked for"),
    Column("Verified"),
)
PARTITION_COLUMNS = (
    Column("Number", right=True),
    Column("Topic-partition"),
    Column("State"),
    Column("Cut", right=True),
    Column("Records", right=True),
    Column("In transit", right=True),
    Column("Bytes", right=True),
)
