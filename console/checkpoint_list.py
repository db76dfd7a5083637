"""`breakglass checkpoint list` and `show`: what there is, and how far it is.

With --json what is not known is null, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

import typer

from breakglass.console.checkpoint_options import Id, Store, all_in, found_in, store_at
from breakglass.console.options import AsJson
from breakglass.console.output import Column, print_json, print_lines, print_table, say
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import VerifiedDocument
from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition
from breakglass.services.checkpoint.watch import SoFar, sizes, so_far, whole_size
from breakglass.services.checkpoint.wording import PROMISES, level_of, promise, reasons, why_failed
from breakglass.services.words.figures import count, total_text
from breakglass.services.words.moments import time_text


def list_all(store: Store, as_json: AsJson = False) -> None:
    """List the checkpoints of a store, the newest first.

    Exits with 1 when documents of a checkpoint are damaged: it is listed with the reason.
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


def show(id: Id, store: Store, as_json: AsJson = False) -> None:
    """Show one checkpoint: its level, why it was lowered, and the state of each partition.

    For a partition that is being copied, the command prints how much is copied, and about how much
    there is to copy in all.
    """
    opened = store_at(store)
    found = found_in(opened, id)
    print_checkpoint(found, so_far(opened, found), as_json=as_json)


def end_with(found: StoredCheckpoint, *, as_json: bool) -> NoReturn:
    """Print a checkpoint that is done, and exit with 0 if it is completed."""
    print_checkpoint(found, as_json=as_json)
    raise typer.Exit(0 if found.status is Status.COMPLETED else 1)


def print_checkpoint(
    found: StoredCheckpoint, moving: Mapping[int, SoFar] | None = None, *, as_json: bool = False
) -> None:
    """What holds for all of it, a line for each partition, and what else there is to say."""
    if as_json:
        print_json({"schema": 1, **document(found, moving)})
        return
    print_lines(_head(found))
    print_table(PARTITION_COLUMNS, list(_partitions(found, moving or {})))
    print_lines(_foot(found))


def brief(found: StoredCheckpoint) -> dict[str, Any]:
    """One checkpoint as the list has it."""
    return {
        "id": found.id,
        "level": found.level,
        "state": found.state,
        "promise": promise(found),
        "failure": "; ".join(reasons(found)) or None,
        "partitions": len(found.partitions),
        "completed": found.completed,
        "bytes": whole_size(found),
        "created_at_ms": found.created_at_ms,
        "acknowledged_at_ms": None if found.started is None else found.started.at_ms,
        "verified": None if found.verified is None else verification(found.verified),
    }


def document(found: StoredCheckpoint, moving: Mapping[int, SoFar] | None = None) -> dict[str, Any]:
    """One checkpoint with everything that is known of it; *moving*: how far its copies are."""
    cut, far = found.cut, moving or {}
    return {
        **brief(found),
        "details": [_partition(part, found, far.get(part.number)) for part in found.partitions],
        "groups": None
        if cut is None
        else {
            name: {"policy": group.policy, "offsets": dict(group.offsets)}
            for name, group in cut.groups.items()
        },
        "rolled_back": None if cut is None else sum(cut.rolled_back.values()),
        "in_transit": None if cut is None else sum(map(len, cut.in_transit.values())),
        "transactions_left_out": None if cut is None else cut.left_out,
    }


def verification(last: VerifiedDocument) -> dict[str, Any]:
    """When every byte was read last, and what came of it; damage by the partition's number."""
    return {
        "at_ms": last.at_ms,
        "whole": not last.damage,
        "files": last.files,
        "bytes": last.size,
        "damage": dict(last.damage),
    }


def _partition(part: StoredPartition, found: StoredCheckpoint, far: SoFar | None) -> dict[str, Any]:
    copy, cut = part.counting, found.cut
    progress = (
        None
        if far is None
        else {
            "records": far.records,
            "records_expected_at_most": far.offsets,
            "bytes": far.bytes,
            "bytes_expected_about": far.bytes_expected,
        }
    )
    return {
        "number": part.number,
        "topic": None if part.subject is None else part.subject.topic,
        "partition": None if part.subject is None else part.subject.partition,
        "state": part.status,
        "failure": why_failed(part, found),
        "position": None if cut is None else cut.positions.get(part.number),
        "in_transit": None if cut is None else len(cut.in_transit.get(part.number, ())),
        "records": copy.manifest.records if copy and copy.manifest else None,
        "bytes": copy.size if copy else None,
        "so_far": progress,
        "node": copy.id.node if copy else None,
        "updated_at_ms": copy.updated_at_ms if copy else None,
    }


def _head(found: StoredCheckpoint) -> Iterator[str]:
    done = f"{found.completed:,} of {len(found.partitions):,} partitions copied"
    yield f"checkpoint {found.id}  {level_of(found)}  {found.status}  {done}  {_size(found)} bytes"
    yield promise(found)
    for reason in reasons(found):
        yield f"failed: {reason}"


def _foot(found: StoredCheckpoint) -> Iterator[str]:
    for name, group in sorted(found.cut.groups.items()) if found.cut else ():
        yield f"group {name}  {group.policy}"
    last = found.verified
    if last is None:
        if found.status is Status.COMPLETED:
            yield f"never verified: `breakglass checkpoint verify {found.id}` reads every byte"
        return
    yield f"verified {time_text(last.at_ms)}: {'damaged' if last.damage else 'whole'}"
    for part in found.partitions:
        if part.number in last.damage:
            yield f"{part.name}  {last.damage[part.number]}"


def _below(found: Iterable[StoredCheckpoint]) -> Iterator[str]:
    """What each level among them promises, and why those have failed that have."""
    levels = {checkpoint.level for checkpoint in found}
    for level, words in PROMISES.items():
        if level in levels:
            yield words
    for checkpoint in found:
        for reason in reasons(checkpoint):
            yield f"{checkpoint.id} {checkpoint.state}: {reason}"


def _size(found: StoredCheckpoint) -> str:
    return total_text(sizes(found)) if found.partitions else "?"


def _line(found: StoredCheckpoint) -> tuple[object, ...]:
    done = f"{found.completed:,}/{len(found.partitions):,}"
    asked, last = time_text(found.created_at_ms), found.verified
    verified = "never" if found.status is Status.COMPLETED else ""
    if last is not None:
        verified = "damaged" if last.damage else time_text(last.at_ms)
    return found.id, level_of(found), found.state, done, _size(found), asked, verified


def _partitions(
    found: StoredCheckpoint, moving: Mapping[int, SoFar]
) -> Iterator[tuple[object, ...]]:
    for part in found.partitions:
        cut, far = found.cut, moving.get(part.number)
        position = None if cut is None else cut.positions.get(part.number)
        held_back = None if cut is None else len(cut.in_transit.get(part.number, ()))
        records = size = "?"
        if far is not None:
            # Those of one under way, of how many about.
            expected = far.bytes_expected
            records = f"{far.records:,} of {'?' if far.offsets is None else f'<= {far.offsets:,}'}"
            size = f"{far.bytes:,} of {'?' if expected is None else f'~{expected:,}'}"
        elif part.counting is not None and part.counting.manifest is not None:
            records, size = count(part.counting.manifest.records), _figure(part.counting.size)
        yield (
            part.number,
            part.name,
            part.status,
            _figure(position),
            records,
            _figure(held_back),
            size,
        )


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
