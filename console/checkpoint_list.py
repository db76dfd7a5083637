"""`breakglass checkpoint list` and `status`: what there is, and how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from console.checkpoint_options import Id, Store, found_in, store_at
from console.options import AsJson
from console.output import Column, print_json, print_table, say
from services.checkpoint.promise import promise
from services.words.moments import time_text

if TYPE_CHECKING:
    from services.checkpoint.store.documents import VerifiedDocument
    from services.checkpoint.store.stored import StoredCheckpoint, StoredPartition


def list_all(store: Store, as_json: AsJson = False) -> None:
    """List the checkpoints of a store, the newest first."""
    found = store_at(store).all()
    if as_json:
        print_json({"schema": 1, "checkpoints": [brief(one) for one in found]})
        return
    if not found:
        say("There is no checkpoint.")
        return
    print_table(COLUMNS, [_line(one) for one in found])


def status(id: Id, store: Store, as_json: AsJson = False) -> None:
    """Show one checkpoint: its level, every partition's state, what it was lowered by."""
    found = found_in(store_at(store), id)
    if as_json:
        print_json({"schema": 1, **document(found)})
    else:
        print_checkpoint(found)


def end_with(found: StoredCheckpoint, *, as_json: bool) -> NoReturn:
    """Print a checkpoint that is done, and end with 0 where it is completed."""
    from services.checkpoint.protocol.values import Status

    if as_json:
        print_json({"schema": 1, **document(found)})
    else:
        print_checkpoint(found)
    raise typer.Exit(0 if found.status is Status.COMPLETED else 1)


def print_checkpoint(found: StoredCheckpoint) -> None:
    """A line for each partition, and above them what holds for all."""
    from services.checkpoint.backup_info import failure_reason

    level = "?" if found.take is None else found.take.level
    say(f"checkpoint {found.id}  {level}  {found.status}  {_size(found)} bytes")
    say(promise(found))
    print_table(PARTITION_COLUMNS, list(_partitions(found)))
    if found.cut is not None:
        for name, group in sorted(found.cut.groups.items()):
            say(f"group {name}  {group.policy}")
    reason = failure_reason(found)
    if reason:
        say(f"failed: {reason}")
    for line in _verified_told(found):
        say(line)


def verification(last: VerifiedDocument) -> dict[str, Any]:
    """When every byte was read last, and what came of it; damage by the partition's number."""
    return {
        "at_ms": last.at_ms,
        "whole": not last.damage,
        "files": last.files,
        "bytes": last.size,
        "damage": dict(last.damage),
    }


def _verified_told(found: StoredCheckpoint) -> Iterator[str]:
    """The same in words; nothing where there is nothing to verify."""
    last = found.verified
    if last is None:
        if _whole(found):
            yield f"never verified: `breakglass checkpoint verify {found.id}` reads every byte"
        return
    yield f"verified {time_text(last.at_ms)}: {'damaged' if last.damage else 'whole'}"
    for number, wrong in sorted(last.damage.items()):
        yield f"partition {number}  {wrong}"


def brief(found: StoredCheckpoint) -> dict[str, Any]:
    """One checkpoint as the list has it."""
    from services.checkpoint.backup_info import failure_reason

    return {
        "id": found.id,
        "level": None if found.take is None else found.take.level,
        "state": found.status,
        "failure": failure_reason(found) or None,
        "partitions": len(found.partitions),
        "completed": _completed(found),
        "bytes": sum(one.counting.size or 0 for one in found.partitions if one.counting),
        "created_at_ms": found.created_at_ms,
        "acknowledged_at_ms": None if found.started is None else found.started.at_ms,
        "verified": None if found.verified is None else verification(found.verified),
    }


def document(found: StoredCheckpoint) -> dict[str, Any]:
    """One checkpoint with everything that is known of it."""
    cut = found.cut
    return {
        **brief(found),
        "promise": promise(found),
        "details": [_partition(one, found) for one in found.partitions],
        "groups": None
        if cut is None
        else {
            name: {"policy": one.policy, "offsets": dict(one.offsets)}
            for name, one in cut.groups.items()
        },
        "rolled_back": None if cut is None else sum(cut.rolled_back.values()),
        "in_transit": None if cut is None else sum(map(len, cut.in_transit.values())),
    }


def _partition(one: StoredPartition, found: StoredCheckpoint) -> dict[str, Any]:
    copy = one.counting
    cut = found.cut
    return {
        "number": one.number,
        "topic": None if one.subject is None else one.subject.topic,
        "partition": None if one.subject is None else one.subject.partition,
        "state": one.status,
        "failure": one.failure,
        "position": None if cut is None else cut.positions.get(one.number),
        "in_transit": None if cut is None else len(cut.in_transit.get(one.number, ())),
        "records": copy.manifest.records if copy and copy.manifest else None,
        "bytes": copy.size if copy else None,
        "node": copy.id.node if copy else None,
        "updated_at_ms": copy.updated_at_ms if copy else None,
    }


def _completed(found: StoredCheckpoint) -> int:
    from services.checkpoint.protocol.values import Status

    return sum(one.status is Status.COMPLETED for one in found.partitions)


def _whole(found: StoredCheckpoint) -> bool:
    from services.checkpoint.protocol.values import Status

    return found.status is Status.COMPLETED


def _verified(found: StoredCheckpoint) -> str:
    last = found.verified
    if last is None:
        return "never" if _whole(found) else ""
    return "damaged" if last.damage else time_text(last.at_ms)


def _size(found: StoredCheckpoint) -> str:
    return f"{sum(one.counting.size or 0 for one in found.partitions if one.counting):,}"


def _line(found: StoredCheckpoint) -> tuple[object, ...]:
    level = "?" if found.take is None else found.take.level
    done = f"{_completed(found):,}/{len(found.partitions):,}"
    asked = time_text(found.created_at_ms)
    return found.id, level, found.status, done, _size(found), asked, _verified(found)


def _partitions(found: StoredCheckpoint) -> Iterator[tuple[object, ...]]:
    for one in found.partitions:
        told = _partition(one, found)
        name = "?" if told["topic"] is None else f"{told['topic']}-{told['partition']}"
        figures = (told[key] for key in ("position", "records", "in_transit", "bytes"))
        rest = ["?" if figure is None else f"{figure:,}" for figure in figures]
        yield one.number, name, one.status, *rest, one.failure or ""


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
    Column("Why"),
)
